"""Wrong guesses, counted by who somebody said to be and where they were, and what they then wait.

A try counts as a failure from before it is looked at until it has turned out well, so that many at
once are no way around the count. Nobody is locked out by what others guess elsewhere."""

import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from domain import access
from domain.access import FREE_TRIES, FREE_TRIES_OF_A_PLACE
from store.access_rows import AttemptRow
from store.engine import Store, transaction
from store.rows import now


class Wait(NamedTuple):
    """That nobody may try now."""

    left: timedelta
    is_first: bool
    """Whether nobody there has been told to wait before."""


class Attempts(Store):
    @transaction
    async def begin(self, session: AsyncSession, user: str, place: str) -> Wait | None:
        """Count a try, and return nothing; or return how long to wait first, and count none."""
        moment = now()
        old = AttemptRow.last < moment - access.FORGOTTEN_AFTER
        await session.execute(delete(AttemptRow).where(old))
        insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
        counted = []
        for who, free in ((place, FREE_TRIES_OF_A_PLACE), (f"{user}\n{place}", FREE_TRIES)):
            key = _key(who)  # the place first, so that two who meet take turns
            first = insert(AttemptRow).values(who=key, failures=0, last=moment, told=False)
            await session.execute(first.on_conflict_do_nothing())
            row = await session.get_one(AttemptRow, key, with_for_update=True)
            if left := _left(row, free, moment):
                is_first, row.told = not row.told, True
                return Wait(left, is_first)
            counted.append(row)
        for row in counted:
            row.failures += 1
            row.last = moment
        return None

    @transaction
    async def succeed(self, session: AsyncSession, user: str, place: str) -> None:
        """Take a try back that turned out well, and forget the failures before it."""
        row = await session.get(AttemptRow, _key(place), with_for_update=True)
        if row is not None:
            row.failures = max(row.failures - 1, 0)
            row.told = False
        mine = AttemptRow.who == _key(f"{user}\n{place}")
        await session.execute(delete(AttemptRow).where(mine))


def _left(row: AttemptRow, free: int, moment: datetime) -> timedelta:
    wait = access.wait(row.failures, free)
    return max(row.last + wait - moment, timedelta()) if wait else wait


def _key(who: str) -> str:
    return hashlib.sha256(who.encode(errors="replace")).hexdigest()
