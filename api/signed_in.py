"""Knows who calls, by what is in the store. A good token is trusted for half a second before it is
looked up again, which is how long a revocation takes to reach other processes; streams are asked
again as often while they last, those of certificates too."""

import asyncio
from datetime import UTC, datetime, timedelta

from api.access import permission
from api.callers import certified_names
from api.gate import TOKEN_BYTES, Heard, invalid, presented
from domain.access import ANY, ANYONE, NO_ONE, Permission, Session
from domain.errors import DomainError, Unauthenticated
from store.tokens import USED_SECONDS, Tokens, digest_of
from store.users import Users

FRESH_SECONDS = 0.5
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
        while session.can_end:
            await asyncio.sleep(FRESH_SECONDS)
            try:
                found = await self._again(session)
            except DomainError:  # nobody can say: it lasts as long as it was said to
                if _over(session):
                    return
                continue
            if found is None or found.principal != session.principal:
                return
            session = found
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
            return Session(principal=principal, certified=True, cloudlets=(ANY,), nodes=(ANY,))
        if self._without is None:
            raise Unauthenticated(
                "no token: sign in first",
                reason="NO_TOKEN",
                do="windlass login, or send the header authorization: Bearer TOKEN",
            )
        return self._without

    async def _again(self, session: Session) -> Session | None:
        """Look up what a call goes on with, and let it live on. None: it is no good any more."""
        if session.certified:
            principal = await self._users.principal(session.principal.name)
            return None if principal is None else Session(principal=principal, certified=True)
        found = await self.good(session.digest)
        if found is not None:
            await self._use(found)
        return found

    async def _use(self, session: Session) -> None:
        """Let the token live on. One of the calls that find it unused for long does so."""
        if _is_stale(session) and session.digest not in self._using:
            self._using.add(session.digest)
            try:
                await self._tokens.use(session.digest)
            finally:
                self._using.discard(session.digest)
            self._known.pop(session.digest, None)


def _certified(line: Heard) -> str:
    """The user whom the caller's certificate names, if it brought one that we verified."""
    for name in certified_names(line):
        if name.startswith(USER):
            return name.removeprefix(USER)
    return ""


def _is_stale(session: Session) -> bool:
    """Whether it is time to write down that a token is used: well before it ends for lying idle."""
    longest = timedelta(seconds=USED_SECONDS)
    if session.expires is not None:
        longest = min(longest, (session.expires - session.used) / 2)
    return now() - session.used > longest


def _over(session: Session) -> bool:
    return session.expires is not None and session.expires <= now()


def now() -> datetime:
    return datetime.now(UTC)
