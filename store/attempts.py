"""Wrong guesses, counted by who somebody said to be and where they were, and what they then wait.

A try counts as a failure from before it is looked at until it has turned out well, so that many at
once are no way around the count. Guesses of one user are counted together wherever they are made,
but an address where that user has signed in lately keeps its turns: nobody is locked out by what
others guess elsewhere."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from domain import access
from store.access_rows import AttemptRow, TokenRow
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import now


class Wait(NamedTuple):
    """That nobody may try now."""

    left: timedelta
    is_first: bool
    """Whether nobody there has been told to wait before."""


class Try(NamedTuple):
    """Somebody who wants to sign in, and from where."""

    user: str
    place: str


class Standing(NamedTuple):
    """What is known of a try before it is made."""

    wait: Wait | None
    is_known: bool
    """Whether the user has signed in there lately."""


class _Count(NamedTuple):
    """What failures are counted by, and when they begin to matter."""

    key: str
    free: int
    longest: timedelta


class Attempts(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._together: Gather[Try, Standing] = Gather(self._standings)

    async def standing(self, user: str, place: str) -> Standing:
        """Whether a try would have to wait. Those who ask together are answered by one query, and
        nothing is written."""
        return await self._together.ask(Try(user, place))

    @transaction
    async def begin(self, session: AsyncSession, user: str, place: str) -> Wait | None:
        """Count a try, and return nothing; or return how long to wait first, and count none."""
        moment = now()
        old = AttemptRow.last < moment - access.FORGOTTEN_AFTER
        await session.execute(delete(AttemptRow).where(old))
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        counted = []
        known = await _known(session, [Try(user, place)])
        for count in _counts(Try(user, place), is_known=bool(known)):
            first = insert(AttemptRow).values(who=count.key, failures=0, last=moment, told=False)
            await session.execute(first.on_conflict_do_nothing())
            row = await session.get_one(AttemptRow, count.key, with_for_update=True)
            if left := _left(row, count, moment):
                is_first, row.told = not row.told, True
                return Wait(left, is_first)
            counted.append(row)
        for row in counted:
            row.failures += 1
            row.last = moment
        return None

    @transaction
    async def succeed(self, session: AsyncSession, user: str, place: str) -> None:
        """Take a try back that turned out well, and forget the failures before it there."""
        mine = Try(user, place)
        for key in (_place(mine), _account(mine)):
            row = await session.get(AttemptRow, key, with_for_update=True)
            if row is not None:
                row.failures = max(row.failures - 1, 0)
                row.told = False
        await session.execute(delete(AttemptRow).where(AttemptRow.who == _pair(mine)))

    @reading
    async def _standings(
        self, session: AsyncSession, tries: Sequence[Try]
    ) -> list[Standing | Exception]:
        moment = now()
        known = await _known(session, tries)
        keys = {count.key for each in tries for count in _counts(each, is_known=False)}
        rows = await session.scalars(select(AttemptRow).where(AttemptRow.who.in_(keys)))
        found = {row.who: row for row in rows}
        return [_standing(each, found, moment, is_known=each in known) for each in tries]


async def _known(session: AsyncSession, tries: Sequence[Try]) -> set[Try]:
    """Those of them that are made where their user has signed in, as tokens tell, which are kept
    for a week after their end."""
    signed_in = select(TokenRow.user_name, TokenRow.source).where(TokenRow.label == "")
    some = or_(*((TokenRow.user_name == user) & (TokenRow.source == at) for user, at in set(tries)))
    rows = await session.execute(signed_in.where(some).distinct())
    return {Try(user, place) for user, place in rows}


def _standing(
    one: Try, rows: dict[str, AttemptRow], moment: datetime, *, is_known: bool
) -> Standing:
    for count in _counts(one, is_known=is_known):
        row = rows.get(count.key)
        if row is not None and (left := _left(row, count, moment)):
            return Standing(Wait(left, not row.told), is_known)
    return Standing(None, is_known)


def _counts(one: Try, *, is_known: bool) -> Sequence[_Count]:
    """By what a try is counted, what many share first, so that two who meet take turns."""
    pair = _Count(_pair(one), access.FREE_TRIES, access.LONGEST_WAIT)
    if is_known:
        return (pair,)
    place = _Count(_place(one), access.FREE_TRIES_OF_A_PLACE, access.LONGEST_WAIT)
    account = _Count(
        _account(one), access.FREE_TRIES_OF_AN_ACCOUNT, access.LONGEST_WAIT_OF_AN_ACCOUNT
    )
    return (place, account, pair)


def _left(row: AttemptRow, count: _Count, moment: datetime) -> timedelta:
    wait = access.wait(row.failures, count.free, count.longest)
    return max(row.last + wait - moment, timedelta()) if wait else wait


def _place(one: Try) -> str:
    return _key(one.place)


def _account(one: Try) -> str:
    return _key(f"\n{one.user}")


def _pair(one: Try) -> str:
    return _key(f"{one.user}\n{one.place}")


def _key(who: str) -> str:
    return hashlib.sha256(who.encode(errors="replace")).hexdigest()
