"""Controllers: the API processes that are alive, by the addresses at which others reach them.

A row is good until its lease is over, and counts as absent from then on, whether or not somebody
has swept it away. What a controller knew of cloudlets goes with it: nobody keeps that true any
more. Leases are judged by the database's clock (`store/clock.py`), so the clocks of the processes
may be apart by any amount."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.cloudlet_info import CloudletInfo
from domain.record import Noun
from store import shelf
from store.clock import Reading, moment
from store.engine import Store, reading, transaction
from store.rows import ControllerRow, RecordRow

MOST = 1000
"""More than there are ever processes at one database."""

AHEAD = 10
"""No process has a lease this many times as long as another's."""


class Controllers(Store):
    @transaction
    async def enter(self, session: AsyncSession, address: str, lease: timedelta) -> int:
        """Be there for a lease, as one that knows nothing yet: what a former life at the same
        address has left is swept away. Returns the highest number of its streams of which
        something was kept: who numbers on from there is not taken for it."""
        last = await _last_stream(session, address)
        await _sweep(session, [address])
        await session.merge(ControllerRow(address=address, until=await moment(session) + lease))
        return last

    @transaction
    async def keep(
        self, session: AsyncSession, address: str, lease: timedelta, *, sweeps: bool = True
    ) -> bool:
        """Be there for a lease from now on, and whether one has been there all the time: others
        may have swept one away. Whose lease is over is swept away, unless `sweeps` is False; one
        that ends later than a lease from now was written before the clock was set back, and ends
        in a lease."""
        known = await session.get(ControllerRow, address) is not None
        present = await moment(session)
        others = ControllerRow.address != address
        late = update(ControllerRow).where(others, ControllerRow.until > present + AHEAD * lease)
        await session.execute(late.values(until=present + lease))
        if sweeps:
            over = select(ControllerRow.address).where(others, ControllerRow.until <= present)
            await _sweep(session, (await session.scalars(over)).all())
        await session.merge(ControllerRow(address=address, until=present + lease))
        return known

    @reading
    async def clock(self, session: AsyncSession) -> Reading:
        """The clock by which leases are judged."""
        return await self._database.clock.read(session)

    @transaction
    async def leave(self, session: AsyncSession, address: str) -> None:
        """Be gone at once. Being gone already is success."""
        await session.execute(delete(ControllerRow).where(ControllerRow.address == address))

    @reading
    async def alive(self, session: AsyncSession) -> Sequence[str]:
        """Their addresses, sorted."""
        alive = select(ControllerRow.address).where(ControllerRow.until > await moment(session))
        return (await session.scalars(alive.order_by(ControllerRow.address).limit(MOST))).all()


async def _sweep(session: AsyncSession, addresses: Sequence[str]) -> None:
    for address in addresses:
        await _sweep_infos(session, address)
        await session.execute(delete(ControllerRow).where(ControllerRow.address == address))


async def _sweep_infos(session: AsyncSession, address: str) -> None:
    for key in await shelf.yielding(session, Noun.CLOUDLET_INFO, Noun.CONTROLLER, address):
        await shelf.remove(session, Noun.CLOUDLET_INFO, key)


async def _last_stream(session: AsyncSession, address: str) -> int:
    keys = await shelf.yielding(session, Noun.CLOUDLET_INFO, Noun.CONTROLLER, address)
    said = select(RecordRow.facts).where(
        RecordRow.noun == Noun.CLOUDLET_INFO, RecordRow.key.in_(keys), RecordRow.facts != ""
    )
    found = map(CloudletInfo.model_validate_json, await session.scalars(said))
    return max((info.stream for info in found), default=0)
