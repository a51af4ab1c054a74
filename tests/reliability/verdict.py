"""What must hold once nothing is under way any more: in the rows, in Temporal and at the site."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import select
from temporalio.client import Client

from domain.cluster import Phase
from domain.machine import Slot, SlotPhase
from domain.naming import CONTROL_PLANE
from domain.operation import StepKey
from store.engine import Database
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, StepRow
from tests.reliability.installation import Installation, fetched
from tests.store.invariants import broken

LOOK_SECONDS = 0.25
SETTLE_SECONDS = 25.0
"""What a sweep, the end of a workflow or MAAS may take to follow the rows."""

Seen = TypeVar("Seen")

EMPTY = frozenset({SlotPhase.PLANNED, SlotPhase.RELEASED})


class Verdict(NamedTuple):
    """Everything that is not as promised, in words."""

    leaked: list[str]
    doubled: list[str]
    rerun: list[str]
    replaced: list[str]
    untrue: list[str]
    orphans: list[str]

    @property
    def all(self) -> list[str]:
        return [text for texts in self for text in texts]


class Rows(NamedTuple):
    """The rows as they were at one moment."""

    clusters: dict[str, ClusterRow]
    """The living ones, by uid."""
    slots: list[SlotRow]
    pools: list[PoolRow]
    operations: dict[str, OperationRow]
    replaced: list[str]
    """Steps that took a further machine for a slot, which a kill is no reason for."""
    broken: list[str]


async def judged(installation: Installation) -> Verdict:
    """Look until everything is as it must be; what is not so by then is the verdict."""
    client = await installation.client()
    database = Database(installation.database, connections=2)

    async def look() -> tuple[bool, Verdict]:
        verdict = await _judge(installation, database, client)
        return not verdict.all, verdict

    try:
        return await settled(look)
    finally:
        await database.close()


async def settled(look: Callable[[], Awaitable[tuple[bool, Seen]]]) -> Seen:
    """What is seen once it is good, or once there has been time enough for that."""
    deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        good, seen = await look()
        if good or asyncio.get_running_loop().time() > deadline:
            return seen
        await asyncio.sleep(LOOK_SECONDS)


async def _judge(installation: Installation, database: Database, client: Client) -> Verdict:
    installation.chronicle.read_on()
    chronicle = installation.chronicle
    rows = await read(database)
    site = json.loads(await fetched(f"{installation.site}/site/invariants"))
    return Verdict(
        leaked=[*_leaks(rows, site), *site["violations"]],
        doubled=list(chronicle.doubled),
        rerun=sorted(chronicle.rerun),
        replaced=rows.replaced,
        untrue=list(_untrue(rows, site["hosts"]["nodes"])),
        orphans=[*rows.broken, *_unfinished(rows), *await _strays(rows, client)],
    )


async def read(database: Database) -> Rows:
    async with database.session(writes=False) as session:
        living = select(ClusterRow).where(ClusterRow.phase != Phase.GONE)
        clusters = {row.uid: row for row in await session.scalars(living)}
        slots = list(await session.scalars(select(SlotRow)))
        pools = list(await session.scalars(select(PoolRow)))
        operations = {row.id: row for row in await session.scalars(select(OperationRow))}
        taking = select(StepRow.key).where(StepRow.verb == "machines.allocate")
        replaced = [key for key in await session.scalars(taking) if StepKey.parse(key).turn > 1]
    return Rows(clusters, slots, pools, operations, replaced, await broken(database))


def _leaks(rows: Rows, site: dict[str, Any]) -> Iterator[str]:
    """Machines and names that nobody in our rows wants, and slots whose machine is not theirs."""
    wanted = {_agent_name(row): row for row in rows.slots if SlotPhase(row.phase) not in EMPTY}
    for machine in site["owned"]:
        slot = wanted.pop(machine["agent_name"], None)
        if slot is None or slot.system_id != machine["system_id"]:
            holds = slot.system_id if slot else "no slot"
            yield f"{machine['system_id']} ({machine['status']}) is owned, and {holds} is wanted"
    yield from (f"slot {row.name} is {row.phase} and has no machine" for row in wanted.values())
    endpoints = {row.endpoint for row in rows.clusters.values()}
    yield from (f"node {name} is still closed to work" for name in site["hosts"]["cordoned"])
    for name in site["dns"]:
        if name["fqdn"] not in endpoints:
            yield f"the name {name['fqdn']} is left"


def _untrue(rows: Rows, nodes: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Versions that we give a node, of its kubelet or of what kubeadm keeps, and it has not."""
    seen = {(node["endpoint"], node["name"]): node for node in nodes}
    for row in rows.slots:
        cluster = rows.clusters.get(row.cluster)
        if cluster is None or row.phase != SlotPhase.HEALTHY:
            continue
        node = seen.get((cluster.endpoint, row.name))
        if node is None:
            yield f"{row.name} is {row.phase}, and there is no such node"
            continue
        if node["kubelet"] != row.kubelet:
            yield f"the kubelet of {row.name} is {node['kubelet']}, and {row.kubelet} to us"
        made = Slot.model_validate_json(row.slot).release.version
        if node["api"] not in ("", made):
            yield f"the API of {row.name} is {node['api']}, and {made} to us"


def _agent_name(row: SlotRow) -> str:
    return Slot.model_validate_json(row.slot).agent_name


def _unfinished(rows: Rows) -> Iterator[str]:
    for row in rows.operations.values():
        if row.ended is None:
            yield f"{row.kind} {row.subject} is {row.stage} and has not ended (op {row.id})"


async def _strays(rows: Rows, client: Client) -> list[str]:
    """Workflows that run for no operation."""
    found = []
    async for workflow in client.list_workflows("ExecutionStatus = 'Running'"):
        if workflow.id.startswith(("op-", "m-")):
            operation = rows.operations.get(workflow.id[-36:])
            if operation is None or operation.ended is not None:
                found.append(f"{workflow.id} runs for no operation")
    return found


def nodes_missing(rows: Rows, names: set[str]) -> list[str]:
    """What these clusters lack of being as they were ordered."""
    there = {row.name: row for row in rows.clusters.values() if row.name in names}
    uids = {row.uid: row.name for row in there.values()}
    return [
        *(f"cluster {name} is gone" for name in sorted(names - there.keys())),
        *(
            f"cluster {row.name} is {row.phase}: {row.message}"
            for row in there.values()
            if row.phase != Phase.RUNNING
        ),
        *(
            f"{slot.name} of {uids[slot.cluster]} is {slot.phase}"
            for slot in rows.slots
            if slot.cluster in uids and slot.phase != SlotPhase.HEALTHY
        ),
    ]


def sizes_wrong(rows: Rows, wanted: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The clusters whose pools, those without a node included, are not as wanted."""
    found = []
    for row in rows.clusters.values():
        if row.name in wanted:
            sizes = {pool.name: 0 for pool in rows.pools if pool.cluster == row.uid}
            for slot in rows.slots:
                if slot.cluster == row.uid and slot.pool != CONTROL_PLANE:
                    sizes[slot.pool] = sizes.get(slot.pool, 0) + 1
            if sizes != wanted[row.name]:
                found.append(f"{row.name} has {sizes} and {dict(wanted[row.name])} is wanted")
    return found


def versions_wrong(rows: Rows, wanted: Mapping[str, str]) -> list[str]:
    """The clusters that do not run what is wanted of them, on every node."""
    found = []
    for row in rows.clusters.values():
        if version := wanted.get(row.name):
            kubelets = {slot.kubelet for slot in rows.slots if slot.cluster == row.uid}
            said = [row.version, *([f"on its way to {row.pending}"] if row.pending else [])]
            if said != [version] or kubelets != {version}:
                found.append(f"{row.name} says {said}, runs {kubelets}, and {version} is wanted")
    return found
