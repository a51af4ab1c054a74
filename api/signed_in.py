"""Knows who calls, by what is in the store. A good token is trusted for half a second before it is
looked up again, which is how long a revocation takes to reach other processes; streams are asked
again as often while they last, and those that a certificate opened every half minute."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from api.access import permission
from api.gate import TOKEN_BYTES, Heard, invalid, presented
from domain.access import ANY, ANYONE, NO_ONE, Permission, Session
from domain.errors import Unauthenticated, Unavailable
from store.tokens import USED_SECONDS, Tokens, digest_of
from store.users import Users

FRESH_SECONDS = 0.5
CERTIFIED_SECONDS = 30.0
"""How often it is looked whether whoever opened a stream with a certificate may still come in."""

REMEMBERED = 10_000
"""Tokens that are known to be good, at most."""

USER = "windlass://user/"
"""What a client's certificate says of whose it is, as the URI among its names."""


class SignedIn:
    """Knows people and programs by their tokens, or by certificates that name users of ours."""

    def __init__(self, users: Users, tokens: Tokens, *, is_open: bool) -> None:
        self._users = users
        self._tokens = tokens
        self._without = Session(principal=ANYONE) if is_open else None
        self._known: dict[str, tuple[Session, float]] = {}
        """By digest, with when it was looked up."""
        self._using: set[str] = set()

    def permission(self, method: str) -> Permission:
        return permission(method)

    async def recognised(self, asked: Permission, line: Heard) -> Session:
        if asked.roles is None:  # not even a bad token keeps anybody from signing in
            return self._without or Session(principal=NO_ONE)
        return await self._session(line)

    async def ended(self, session: Session) -> None:
        if session.can_end and not session.digest:
            await self._kept_out(session.principal.name)
            return
        while session.digest:
            await asyncio.sleep(FRESH_SECONDS)
            try:
                if await self.good(session.digest) is None:
                    return
            except Unavailable:  # nobody can say: it lasts as long as it was said to
                if _over(session):
                    return
        await asyncio.Event().wait()

    async def good(self, digest: str) -> Session | None:
        """Whom a token stands for, by its digest. None: it is no good."""
        moment = asyncio.get_running_loop().time()
        if known := self._known.get(digest):
            session, looked = known
            if moment - looked < FRESH_SECONDS and not _over(session):
                return session
        found = await self._tokens.session(digest)
        if found is None:
            self._known.pop(digest, None)
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[digest] = (found, moment)
        return found

    async def knows(self, token: str) -> bool:
        """Whether a token is good."""
        if not 0 < len(token) <= TOKEN_BYTES:
            return False
        return await self.good(digest_of(token)) is not None

    def forget(self) -> None:
        """Look every token up again, since somebody here has ended one."""
        self._known.clear()

    async def _kept_out(self, name: str) -> None:
        """Return once a user may not come in any more who is known by a certificate."""
        while True:
            await asyncio.sleep(CERTIFIED_SECONDS)
            with suppress(Unavailable):  # nobody can say
                if await self._users.principal(name) is None:
                    return

    async def _session(self, line: Heard) -> Session:
        token = presented(line.invocation_metadata() or ())
        if token:
            digest = digest_of(token)
            session = await self.good(digest)
            if session is None:
                raise invalid()
            await self._use(session)
            return session
        if name := _certified(line):
            principal = await self._users.principal(name)
            if principal is None:
                raise Unauthenticated(
                    f"the certificate names {name[:64]!r}, who is no user",
                    do="windlass user add makes one, or call with another certificate",
                )
            return Session(principal=principal, cloudlets=(ANY,))
        if self._without is None:
            raise Unauthenticated(
                "no token: sign in first",
                reason="NO_TOKEN",
                do="windlass login, or send the header authorization: Bearer TOKEN",
            )
        return self._without

    async def _use(self, session: Session) -> None:
        """Let the token live on. One of the calls that find it unused for long does so."""
        idle = now() - session.used > timedelta(seconds=USED_SECONDS)
        if idle and session.digest not in self._using:
            self._using.add(session.digest)
            try:
                await self._tokens.use(session.digest)
            finally:
                self._using.discard(session.digest)
            self._known.pop(session.digest, None)


def _certified(line: Heard) -> str:
    """The user whom the caller's certificate names, if it brought one that we verified."""
    found = line.auth_context() or {}
    for name in found.get("x509_subject_alternative_name", ()):
        said = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        if said.startswith(USER):
            return said.removeprefix(USER)
    return ""


def _over(session: Session) -> bool:
    return session.expires is not None and session.expires <= now()


def now() -> datetime:
    return datetime.now(UTC)
