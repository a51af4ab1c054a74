"""Everything that signing in is made of, and what only those who govern may, put together once for
both doors."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from api.audit import Trail
from api.client_certificates import RevocationList
from api.door import Service
from api.koor.auth import AuthService
from api.ops.codec import Codec
from api.ops.secrets import Secrets
from api.ops.trail import Audit
from api.ops.users import Tokens, Users
from api.origin import Network, Origins
from api.sign_in import SignIn, Terms
from api.signed_in import SignedIn
from domain import access
from protos.gen.koor.api.services.auth import auth_pb2
from protos.gen.ops import access_pb2, codec_pb2, secrets_pb2
from store import audit, secrets, tokens, users
from store.attempts import Attempts
from store.engine import Database
from store.passwords import Passwords
from workflows.sealed import Sealing


class Said(Protocol):
    """What an operator says of signing in."""

    @property
    def mode(self) -> str: ...
    @property
    def open_beyond_loopback(self) -> bool: ...
    @property
    def password_login(self) -> bool: ...
    @property
    def token_lifetime(self) -> timedelta: ...
    @property
    def token_idle(self) -> timedelta: ...
    @property
    def tokens_per_user(self) -> int: ...
    @property
    def trusted_proxies(self) -> Sequence[Network]: ...


class Entrance(NamedTuple):
    gate: SignedIn
    trail: Trail
    services: list[Service]
    passwords: Passwords
    is_open: bool
    signed_into: list[str]
    """The addresses of doors at which callers say who they are, by secrets."""

    async def close(self) -> None:
        await self.trail.close()
        self.passwords.close()


def entrance(
    database: Database,
    vault: secrets.Secrets,
    said: Said,
    doors: Iterable[str],
    crl: Path | None = None,
) -> Entrance:
    """For doors at these addresses. `domain/access.py` says when they are open to everybody."""
    there = list(filter(None, doors))
    is_open = access.is_open(said.mode, there, beyond_loopback=said.open_beyond_loopback)
    terms = Terms(said.token_lifetime, said.token_idle, said.password_login)
    known, passwords = users.Users(database), Passwords()
    given = tokens.Tokens(database, most=said.tokens_per_user)
    kept, origins = audit.Audit(database), Origins(said.trusted_proxies)
    gate = SignedIn(known, given, origins, RevocationList(crl), is_open=is_open)
    sign_in = SignIn(known, given, Attempts(database), passwords, terms)
    ours = access_pb2.DESCRIPTOR.services_by_name
    codec = Codec(Sealing(vault.seal, shows=True))
    services = [
        Service(
            auth_pb2.DESCRIPTOR.services_by_name["AuthService"],
            AuthService(sign_in, given, gate, origins),
        ),
        Service(ours["Users"], Users(known, passwords, sign_in, gate, origins)),
        Service(ours["Tokens"], Tokens(given, gate, origins)),
        Service(ours["Audit"], Audit(kept)),
        Service(secrets_pb2.DESCRIPTOR.services_by_name["Secrets"], Secrets(vault)),
        Service(codec_pb2.DESCRIPTOR.services_by_name["Codec"], codec),
    ]
    signed_into = [] if is_open else there
    return Entrance(gate, Trail(kept, origins), services, passwords, is_open, signed_into)
