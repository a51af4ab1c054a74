"""Controllers: the API processes that are alive, by the addresses at which others reach them.

A row is good until its lease is over, and counts as absent from then on, whether or not somebody
has swept it away. Leases are read off the clocks of those who write and read them: clocks that are
apart by more than a lease see each other as gone."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.engine import Store, reading, transaction
from store.rows import ControllerRow, now

MOST = 1000
"""More than there are ever processes at one database."""


class Controllers(Store):
    @transaction
    async def keep(self, session: AsyncSession, address: str, lease: timedelta) -> None:
        """Be there for a lease from now on. Whose lease is over is swept away."""
        gone = (ControllerRow.until <= now()) & (ControllerRow.address != address)
        await session.execute(delete(ControllerRow).where(gone))
        await session.merge(ControllerRow(address=address, until=now() + lease))

    @transaction
    async def leave(self, session: AsyncSession, address: str) -> None:
        """Be gone at once. Being gone already is success."""
        await session.execute(delete(ControllerRow).where(ControllerRow.address == address))

    @reading
    async def alive(self, session: AsyncSession) -> Sequence[str]:
        """Their addresses, sorted."""
        alive = select(ControllerRow.address).where(ControllerRow.until > now())
        return (await session.scalars(alive.order_by(ControllerRow.address).limit(MOST))).all()
