"""Those who are signed in, for tests of doors that ask for it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import update

from domain.access import Principal, Role
from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceStub
from protos.gen.ops.access_pb2_grpc import AuditStub, TokensStub, UsersStub
from store.access_rows import AttemptRow
from store.engine import Database
from store.passwords import Passwords
from store.tokens import Tokens
from store.users import Users
from tests.support.passwords import PASSWORD

PEOPLE = (
    Principal(name="ada", role=Role.ADMIN),
    Principal(name="ole", role=Role.OPERATOR),
    Principal(name="vic", role=Role.VIEWER),
    Principal(name="dev", role=Role.DEVELOPER, developer="acme"),
    Principal(name="agent-7", role=Role.AGENT),
    Principal(name="agent-8", role=Role.AGENT),
)


async def people(database: Database) -> dict[str, str]:
    """Let them all in, by that password or by the token that is returned for each name."""
    passwords, users, tokens = Passwords(), Users(database), Tokens(database)
    kept, found = await passwords.hashed(PASSWORD), {}
    for who in PEOPLE:
        await users.add(who, kept)
        nodes = ("any",) if who.role is Role.AGENT else ()
        found[who.name], _ = await tokens.issue(
            who.name, lifetime=timedelta(hours=1), label="test", nodes=nodes
        )
    passwords.close()
    return found


async def counted(database: Database, failures: Any) -> None:
    """Have so many guesses been made, wherever one was."""
    async with database.session(writes=True) as session:
        await session.execute(update(AttemptRow).values(failures=failures))


def bearer(token: str) -> Sequence[tuple[str, str]]:
    """What a call carries."""
    return (("authorization", f"Bearer {token}"),)


class Entry:
    """The stubs of signing in."""

    def __init__(self, channel: Any) -> None:
        self.auth = AuthServiceStub(channel)
        self.users = UsersStub(channel)
        self.tokens = TokensStub(channel)
        self.audit = AuditStub(channel)
