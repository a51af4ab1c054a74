"""What is done to the rows of an instance within a transaction that has locked its own.

The row of the instance is locked before that of any node."""

import json
from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.agents import environment_of
from domain.errors import NotFound
from domain.instance import (
    InstanceSpec,
    InstanceUid,
    InstanceView,
    Phase,
    Port,
    Wish,
    advance,
)
from domain.placement import Amounts
from store.node_rows import HostPortRow, InstanceEventRow, InstanceRow, NodeRow, PlacementRow
from store.rows import SecretRow, now

PORTS = TypeAdapter(tuple[Port, ...])

WORDS = 1000
"""So much is kept of what is said of an instance."""


async def locked(session: AsyncSession, uid: str) -> InstanceRow:
    """The row, held against every other writer until the transaction ends."""
    row = await session.get(InstanceRow, uid, with_for_update=True)
    if row is None:
        raise unknown(uid)
    return row


def unknown(name: str) -> NotFound:
    return NotFound(
        f"there is no instance {name}",
        subject=name,
        reason="INSTANCE_NOT_FOUND",
        do="windlass instance list shows those that there are",
    )


def move(session: AsyncSession, row: InstanceRow, to: Phase, says: str = "") -> None:
    """Bring an instance into a phase and say so in its journal. Saying the same again is nothing
    new, and neither is staying put without a word."""
    was = Phase(row.phase)
    says = says[:WORDS]
    row.phase = advance(row.id, was, to)
    if to is was and says in ("", row.says):
        return
    row.says = says
    tell(session, row)


def tell(session: AsyncSession, row: InstanceRow) -> None:
    """Write how the instance stands as the next line of its journal. The row is locked by then, so
    numbers have no gaps and no line appears before an earlier one."""
    row.changed = now()
    row.events += 1
    session.add(
        InstanceEventRow(
            uid=row.uid,
            number=row.events,
            time=row.changed,
            phase=row.phase,
            says=row.says,
            node=row.node,
            incarnation=row.incarnation,
        )
    )


def decide(row: InstanceRow) -> None:
    """Begin another turn: whoever acts on what was decided before is late from now on."""
    row.turn += 1
    row.waits_until = None
    row.heeded = False


async def over(session: AsyncSession, row: InstanceRow, to: Phase, says: str) -> None:
    """End an instance. What it had of a node is free; a copy that is there is to be removed."""
    await release(session, row, left=True)
    decide(row)
    move(session, row, to, says)
    row.ended = now()
    await session.execute(delete(SecretRow).where(SecretRow.reference == environment_of(row.uid)))
    row.running_since = None
    row.used_cpu = row.used_memory = row.used_disk = 0


async def release(session: AsyncSession, row: InstanceRow, *, left: bool) -> None:
    """Give back what an instance has reserved. `left`: its copy may still be there, so the host's
    ports and the address stay its own until it is removed."""
    if not row.node:
        return
    placement = await session.get(PlacementRow, (row.node, row.uid))
    node, freed = row.node, part(row, placement)
    await give_back(session, {node: freed})
    if placement is not None and not left:
        await forget(session, placement)


def part(row: InstanceRow, placement: PlacementRow | None) -> Amounts:
    """Take an instance off its node, where its copy may still be. Returns what it had reserved,
    which is still to be given back."""
    freed = Amounts()
    if placement is not None:
        if not placement.left:
            freed = Amounts(cpu=placement.cpu, memory=placement.memory, disk=placement.disk)
        placement.left, placement.waits_until = True, None
        placement.incarnation = row.incarnation
    row.node = ""
    row.taken_up = row.parked = row.evicted = False
    return freed


async def give_back(session: AsyncSession, freed: Mapping[str, Amounts]) -> None:
    """Have so much of each node be free again."""
    for node, amounts in sorted(freed.items()):
        if amounts != Amounts():
            await session.execute(
                update(NodeRow)
                .where(NodeRow.id == node)
                .values(
                    taken_cpu=NodeRow.taken_cpu - amounts.cpu,
                    taken_memory=NodeRow.taken_memory - amounts.memory,
                    taken_disk=NodeRow.taken_disk - amounts.disk,
                )
                .execution_options(synchronize_session=False)
            )


async def anew(session: AsyncSession, row: InstanceRow) -> None:
    """Have the next copy made where this one was, in its place."""
    row.incarnation += 1
    row.taken_up = row.parked = False
    placement = await session.get(PlacementRow, (row.node, row.uid))
    if placement is not None:
        placement.incarnation = row.incarnation


async def forget(session: AsyncSession, placement: PlacementRow) -> None:
    """Nothing of the copy is on its node any more."""
    mine = (HostPortRow.node == placement.node) & (HostPortRow.uid == placement.uid)
    await session.execute(delete(HostPortRow).where(mine))
    await session.delete(placement)
    await session.flush()


def spec_of(row: InstanceRow) -> InstanceSpec:
    return InstanceSpec.model_validate_json(row.spec)


def avoided(row: InstanceRow) -> frozenset[str]:
    return frozenset(json.loads(row.avoid or "[]"))


def avoid(row: InstanceRow, nodes: frozenset[str]) -> None:
    row.avoid = json.dumps(sorted(nodes)) if nodes else ""


async def placements_of(session: AsyncSession, uids: Sequence[str]) -> dict[str, PlacementRow]:
    """What these instances have reserved, by uid."""
    own = select(PlacementRow).where(PlacementRow.uid.in_(uids), PlacementRow.left.is_(False))
    return {row.uid: row for row in await session.scalars(own)}


def as_view(row: InstanceRow, placement: PlacementRow | None) -> InstanceView:
    return InstanceView(
        uid=InstanceUid(row.uid),
        id=row.id,
        spec=spec_of(row),
        phase=Phase(row.phase),
        wish=Wish(row.wish),
        says=row.says,
        node=row.node,
        incarnation=row.incarnation,
        restarts=row.restarts,
        waits_until=row.waits_until,
        used=Amounts(cpu=row.used_cpu, memory=row.used_memory, disk=row.used_disk),
        ip=placement.ip if placement else "",
        ports=PORTS.validate_json(placement.ports) if placement else (),
        created=row.created,
        changed=row.changed,
        ended=row.ended,
        last_event=row.events,
    )
