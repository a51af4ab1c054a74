"""Everything that signing in is made of, put together once for both doors."""

from typing import NamedTuple

from api.audit import Trail
from api.door import Service
from api.koor.auth import AuthService
from api.ops.trail import Audit
from api.ops.users import Tokens, Users
from api.sign_in import SignIn, Terms
from api.signed_in import SignedIn
from protos.gen.koor.api.services.auth import auth_pb2
from protos.gen.ops import access_pb2
from store import audit, tokens, users
from store.attempts import Attempts
from store.engine import Database
from store.passwords import Passwords


class Entrance(NamedTuple):
    gate: SignedIn
    trail: Trail
    services: list[Service]
    passwords: Passwords
    is_open: bool

    async def close(self) -> None:
        await self.trail.close()
        self.passwords.close()


def entrance(database: Database, terms: Terms, *, is_open: bool) -> Entrance:
    """`is_open`: whoever does not sign in may do everything."""
    known, given, passwords = users.Users(database), tokens.Tokens(database), Passwords()
    kept = audit.Audit(database)
    gate = SignedIn(known, given, is_open=is_open)
    sign_in = SignIn(known, given, Attempts(database), passwords, terms)
    ours = access_pb2.DESCRIPTOR.services_by_name
    services = [
        Service(
            auth_pb2.DESCRIPTOR.services_by_name["AuthService"], AuthService(sign_in, given, gate)
        ),
        Service(ours["Users"], Users(known, passwords, sign_in, gate)),
        Service(ours["Tokens"], Tokens(given, gate)),
        Service(ours["Audit"], Audit(kept)),
    ]
    return Entrance(gate, Trail(kept), services, passwords, is_open)
