"""Knows who calls, by what is in the store. A good token is trusted for half a second before it is
looked up again, which is how long a revocation takes to reach other processes; streams are asked
again as often while they last, those of certificates too."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from time import monotonic

from api import client_certificates
from api.access import permission
from api.callers import certificate
from api.client_certificates import ClientCertificate, RevocationList
from api.gate import TOKEN_BYTES, Heard, invalid, presented
from api.origin import Origins
from api.token_bucket import Buckets, Rate
from domain.access import ANY, ANYONE, NO_ONE, Permission, Session
from domain.errors import DomainError, Exhausted, Unauthenticated
from store.tokens import USED_SECONDS, Tokens, digest_of
from store.users import Users

FRESH_SECONDS = 0.5
CRL_SECONDS = 1.0
"""How often it is looked whether the list of revoked certificates has changed."""
REMEMBERED = 10_000
"""Tokens that are known to be good, at most."""

BAD_TOKENS = Rate(per_second=100, burst=2000)
"""How many tokens that are no good are looked up for one address."""


class SignedIn:
    """Knows people and programs by their tokens, or by certificates that name users of ours."""

    def __init__(
        self,
        users: Users,
        tokens: Tokens,
        origins: Origins | None = None,
        revoked: RevocationList | None = None,
        *,
        is_open: bool,
    ) -> None:
        self._revoked = revoked or RevocationList(None)
        self._listed = monotonic()
        self._origins = origins or Origins()
        self._misses = Buckets(BAD_TOKENS)
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
            session = await self._presented(digest_of(token), line)
            await self._use(session)
            return session
        shown = certificate(line)
        if shown and (read := client_certificates.read(shown)):
            return await self._certified(read)
        if self._without is None:
            raise Unauthenticated(
                "no token: sign in first",
                reason="NO_TOKEN",
                do="windlass login, or send the header authorization: Bearer TOKEN",
            )
        return self._without

    async def _certified(self, shown: ClientCertificate) -> Session:
        """Whom a certificate names. It was verified when the connection was made, which may be long
        ago, so that it may have ended since."""
        principal = await self._users.principal(shown.user)
        if principal is None:
            raise Unauthenticated(
                f"the certificate names {shown.user[:64]!r}, who is no user",
                do="windlass user add makes one, or call with another certificate",
            )
        session = Session(
            principal=principal,
            certified=True,
            cloudlets=(ANY,),
            nodes=(ANY,),
            expires=shown.expires,
            made_with=shown.mark,
        )
        if self._is_cut_off(session):
            raise Unauthenticated(
                f"the certificate of {principal.name} has ended or is revoked",
                reason="CERTIFICATE_ENDED",
                do="call with another certificate, or sign in",
            )
        return session

    def _is_cut_off(self, session: Session) -> bool:
        """Whether it is over, or a revoked certificate is behind it."""
        moment = monotonic()
        if moment > self._listed + CRL_SECONDS:
            self._listed = moment
            self._revoked.refresh()
        return _over(session) or self._revoked.has(session.made_with)

    async def _presented(self, digest: str, line: Heard) -> Session:
        """Whom a token stands for. Tokens that were never good are looked up as often as the
        bucket of their address allows, so that made-up ones cost others little."""
        place = self._origins.place(line) if digest not in self._known else ""
        if place and (seconds := self._misses.lacks(place)):
            raise Exhausted(
                "too many tokens that are none of ours came from this address",
                reason="BAD_TOKENS",
                do="windlass login gets a good one; try again in a moment",
                retry_seconds=math.ceil(seconds),
            )
        session = await self.good(digest)
        if session is None or self._is_cut_off(session):
            if place:
                self._misses.take(place)
            raise invalid()
        return session

    async def _again(self, session: Session) -> Session | None:
        """Look up what a call goes on with, and let it live on. None: it is no good any more."""
        if session.certified:
            principal = await self._users.principal(session.principal.name)
            if principal is None or self._is_cut_off(session):
                return None
            return session.model_copy(update={"principal": principal})
        found = await self.good(session.digest)
        if found is None or self._is_cut_off(found):
            return None
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
