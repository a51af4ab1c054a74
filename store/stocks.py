"""What the machine pool holds, as last seen, and what is refused because of it."""

import json
from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import ClusterOrder, slots_of
from domain.errors import Exhausted, Invalid, Violation
from domain.ports import Stock
from store.engine import Store, transaction
from store.rows import StockRow, now

POOL = "maas"

FRESH = timedelta(minutes=10)
"""For how long what was seen says anything. It is looked at every minute; when that fails for long,
machines may have been added that nobody saw, and what cannot be had is found out soon enough."""


class Stocks(Store):
    @transaction
    async def saw(self, session: AsyncSession, stock: Stock) -> None:
        """Remember what the machine pool holds, to refuse at once what can never fit."""
        row = StockRow(
            pool=POOL, machines=stock.machines, tagged=json.dumps(stock.tagged), seen=now()
        )
        await session.merge(row)


async def last_seen(session: AsyncSession) -> Stock | None:
    """None before the pool was first asked, and when that was too long ago."""
    row = await session.get(StockRow, POOL)
    if row is None or row.seen < now() - FRESH:
        return None
    return Stock(machines=row.machines, tagged=json.loads(row.tagged))


def refuse_what_never_fits(order: ClusterOrder, stock: Stock | None) -> None:
    """Refuse a tag no machine has, and more machines than exist. A shortage that may pass is
    waited for. While nobody knows what the pool holds, everything is accepted."""
    if stock is None:
        return
    wanted: dict[str, int] = {}
    for _, pool in slots_of(order):
        wanted[pool.instance_type] = wanted.get(pool.instance_type, 0) + 1
    unknown = [
        Violation(field=f"{field}.instanceType", description=f"no machine is tagged {tag!r}")
        for field, tag in _instance_types(order)
        if tag and tag not in stock.tagged
    ]
    if unknown:
        first = unknown[0]
        raise Invalid(
            f"{first.field}: {first.description}",
            subject=order.name,
            reason="UNKNOWN_INSTANCE_TYPE",
            do=f"use one of {', '.join(sorted(stock.tagged)) or 'none: no machine is tagged'}",
            violations=unknown,
        )
    for tag, count in wanted.items():
        there = stock.tagged[tag] if tag else stock.machines
        if count > there:
            raise _never_fits(order.name, f"tagged {tag!r} " if tag else "", count, there)
    if (count := sum(wanted.values())) > stock.machines:
        raise _never_fits(order.name, "", count, stock.machines)


def _instance_types(order: ClusterOrder) -> Iterable[tuple[str, str]]:
    yield "control_plane_nodes", order.control_plane.instance_type
    for index, pool in enumerate(order.pools):
        yield f"worker_node_pools[{index}]", pool.instance_type


def _never_fits(cluster: str, tagged: str, wanted: int, there: int) -> Exhausted:
    return Exhausted(
        f"{wanted} machines {tagged}are asked for and {there} exist",
        subject=cluster,
        reason="NOT_ENOUGH_MACHINES",
        do="ask for fewer machines, or commission more in MAAS",
        facts={"wanted": str(wanted), "existing": str(there)},
    )
