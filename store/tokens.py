"""Tokens: 256 random bits that stand for somebody, of which only the digest is kept.

A token ends when it expires, when it lies unused for too long, when it is revoked, and when its
user is disabled, whichever comes first. One that was made with another ends with that at the
latest, and is revoked with it. Ended ones are kept for a week: logging out again with one is no
error."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.access import Session, TokenInfo
from domain.errors import Exhausted, NotFound, Unauthenticated
from store.access_rows import TokenRow, UserRow
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import now
from store.users import principal_of

PREFIX = "windlass_"
"""What tokens begin with, so that scanners of leaked secrets know them."""

USED_SECONDS = 60
"""That a token is used is written down as seldom as this: reading is what people wait for."""

KEPT = timedelta(days=7)
MOST = 1000


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


MOST_OF_A_USER = 500
LATEST = datetime.max.replace(tzinfo=UTC)


class Certificate(NamedTuple):
    """A certificate that a token is made by."""

    mark: str
    expires: datetime


class Ended(NamedTuple):
    """A token that is good for nothing now."""

    user: str
    was_good: bool
    """Whether it was good for something until now."""


class Tokens(Store):
    def __init__(self, database: Database, *, most: int = MOST_OF_A_USER) -> None:
        """`most` is how many good ones a user may have."""
        super().__init__(database)
        self._most = most
        self._together: Gather[str, Session | None] = Gather(self._found)

    @transaction
    async def issue(
        self,
        session: AsyncSession,
        user: str,
        *,
        lifetime: timedelta,
        idle: timedelta = timedelta(),
        label: str = "",
        source: str = "",
        cloudlets: Sequence[str] = (),
        nodes: Sequence[str] = (),
        parent: str = "",
        certificate: Certificate | None = None,
    ) -> tuple[str, TokenInfo]:
        """A new token, which nobody can tell again, and what is known of it. `cloudlets` and
        `nodes` are the only ones it may speak of. With a parent, by its digest, it is good for
        nothing that the parent is not: as long, and as long unused. One that is made by certificate
        ends with that.

        A user has `most` tokens. To sign in once more ends the sign-in that was used least lately;
        another one that is made with a label is refused."""
        moment = now()
        # The user first, as whoever changes a password does, so that two who meet take turns.
        if await session.get(UserRow, user, with_for_update=True) is None:
            raise NotFound(f"there is no user {user}", subject=user, reason="USER_NOT_FOUND")
        made_with = await _good(session, parent) if parent else None
        until = min(moment + lifetime, *_ends(made_with, certificate), LATEST)
        await session.execute(delete(TokenRow).where(TokenRow.ended < moment - KEPT))
        await self._make_place(session, user, label)
        token = PREFIX + secrets.token_urlsafe(32)
        row = TokenRow(
            digest=digest_of(token),
            id=uuid4().hex[:12],
            user_name=user,
            label=label,
            created=moment,
            expires=until,
            idle_seconds=made_with.idle_seconds if made_with else int(idle.total_seconds()),
            used=moment,
            ended=moment,
            source=source,
            cloudlets=json.dumps(cloudlets),
            nodes=json.dumps(nodes),
            parent=parent or (certificate.mark if certificate else ""),
        )
        row.ended = _end(row)
        session.add(row)
        return token, _info(row)

    async def session(self, digest: str) -> Session | None:
        """Whom a token stands for, or None if it is no good. Those who ask together are answered
        by one query."""
        return await self._together.ask(digest)

    @transaction
    async def use(self, session: AsyncSession, digest: str) -> None:
        """Note that a token is used."""
        row = await session.get(TokenRow, digest, with_for_update=True)
        if row is not None and row.revoked is None and row.ended > now():
            row.used = now()
            row.ended = _end(row)

    @transaction
    async def revoke(self, session: AsyncSession, digest: str) -> Ended | None:
        """End a token, with those that were made with it. Again, while it is remembered, is
        success; None if it never was one."""
        row = await session.get(TokenRow, digest, with_for_update=True)
        if row is None:
            return None
        ended = Ended(row.user_name, row.revoked is None and row.ended > now())
        await _end_now(session, row)
        return ended

    @transaction
    async def revoke_named(self, session: AsyncSession, token: str, user: str) -> str:
        """The same by its id, and return its digest. With a user, only one of theirs."""
        query = select(TokenRow).where(TokenRow.id == token).with_for_update()
        row = await session.scalar(query)
        if row is None or (user and row.user_name != user):
            raise NotFound(
                f"there is no token {token}",
                subject=token,
                reason="TOKEN_NOT_FOUND",
                do="windlass token list shows them",
            )
        await _end_now(session, row)
        return row.digest

    @reading
    async def of(self, session: AsyncSession, user: str) -> Sequence[TokenInfo]:
        """The tokens that are good, of a user, or of all if none is named; the newest first."""
        query = select(TokenRow).where(TokenRow.ended > now())
        if user:
            query = query.where(TokenRow.user_name == user)
        rows = await session.scalars(query.order_by(TokenRow.created.desc()).limit(MOST))
        return [_info(row) for row in rows]

    async def _make_place(self, session: AsyncSession, user: str, label: str) -> None:
        good = (TokenRow.user_name == user) & (TokenRow.ended > now())
        if (await session.scalar(select(func.count()).where(good)) or 0) < self._most:
            return
        oldest = select(TokenRow).where(good, TokenRow.label == "").order_by(TokenRow.used).limit(1)
        row = None if label else await session.scalar(oldest)
        if row is None:
            raise Exhausted(
                f"{user} has {self._most} tokens, and may have no more",
                subject=user,
                reason="TOO_MANY_TOKENS",
                do="windlass token list shows them, windlass token revoke ends one",
            )
        await _end_now(session, row)

    @reading
    async def _found(
        self, session: AsyncSession, digests: Sequence[str]
    ) -> list[Session | Exception | None]:
        moment = now()
        query = select(TokenRow, UserRow).join(UserRow, UserRow.name == TokenRow.user_name)
        rows = await session.execute(query.where(TokenRow.digest.in_(set(digests))))
        found = {
            token.digest: Session(
                principal=principal_of(user),
                digest=token.digest,
                expires=token.ended,
                used=token.used,
                cloudlets=json.loads(token.cloudlets),
                made_with=token.parent,
                nodes=json.loads(token.nodes),
            )
            for token, user in rows
            if token.revoked is None and token.ended > moment and not user.disabled
        }
        return [found.get(digest) for digest in digests]


def _ends(parent: TokenRow | None, certificate: Certificate | None) -> list[datetime]:
    """When what a token is made with ends."""
    return [each.expires for each in (parent, certificate) if each is not None]


def _end(row: TokenRow) -> datetime:
    """When a token ends that is not used again."""
    if not row.idle_seconds:
        return row.expires
    return min(row.expires, row.used + timedelta(seconds=row.idle_seconds))


async def _good(session: AsyncSession, digest: str) -> TokenRow:
    """A token that is good, and stays so until the transaction ends."""
    row = await session.get(TokenRow, digest, with_for_update=True)
    if row is None or row.revoked is not None or row.ended <= now():
        raise Unauthenticated(
            "the token that this was asked for with has ended",
            reason="INVALID_TOKEN",
            do="windlass login gets a new one",
        )
    return row


async def _end_now(session: AsyncSession, row: TokenRow) -> None:
    ending = [row]
    while ending:
        for each in ending:
            if each.revoked is None:
                each.revoked = each.ended = now()
        await session.flush()
        made = select(TokenRow).where(TokenRow.parent.in_([each.digest for each in ending]))
        held = await session.scalars(made.order_by(TokenRow.digest).with_for_update())
        ending = list(held)


def _info(row: TokenRow) -> TokenInfo:
    return TokenInfo(
        id=row.id,
        user=row.user_name,
        label=row.label,
        created=row.created,
        expires=row.expires,
        used=row.used,
        revoked=row.revoked,
        source=row.source,
        cloudlets=json.loads(row.cloudlets),
        nodes=json.loads(row.nodes),
    )
