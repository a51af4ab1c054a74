"""What is taken of each cloudlet. Whoever takes or gives back holds the cloudlet's row until the
transaction is over, so that nothing is given out twice; what an instance took is written on its
own row, and exactly that is given back."""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.appinst import AppInst
from domain.cloudlet import CloudletKey
from domain.clusterinst import ClusterInst
from domain.flavor import Flavor
from domain.key_text import cloudlet_text, name_text
from domain.record import Noun
from domain.standing import CloudletStanding, ClusterStanding
from domain.usage import Taken, Usage, minus, plus
from store import changes
from store.edge_rows import AppInstRow, CloudletRefsRow, ClusterInstRow
from store.engine import Store, reading
from store.rows import RecordRow


async def held(session: AsyncSession, key: CloudletKey) -> CloudletRefsRow:
    """A cloudlet's row, made if need be, held against all who take or give back."""
    text = cloudlet_text(key)
    row = await session.get(CloudletRefsRow, text, with_for_update=True)
    if row is None:
        row = CloudletRefsRow(
            cloudlet=text,
            operator=key.operator,
            name=key.name,
            clusters="[]",
            ports="[]",
            **dict.fromkeys(("ram", "vcores", "disk", "addresses"), 0),
        )
        session.add(row)
        await session.flush()
    return row


def usage(row: CloudletRefsRow) -> Usage:
    return Usage.model_construct(  # it is what we wrote: tens of thousands of ports may be taken
        ram=row.ram,
        vcores=row.vcores,
        disk=row.disk,
        addresses=row.addresses,
        ports=_read_ports(row.ports),
    )


def written_ports(ports: Mapping[int, int]) -> str:
    """Ports as they are kept: runs of those that are taken alike, each by its first, its last and
    its bits. What is given out is mostly in a row."""
    runs: list[list[int]] = []
    for number in sorted(ports):
        bits = ports[number]
        if runs and runs[-1][1] == number - 1 and runs[-1][2] == bits:
            runs[-1][1] = number
        else:
            runs.append([number, number, bits])
    return json.dumps(runs)


def _read_ports(text: str) -> dict[int, int]:
    ports: dict[int, int] = {}
    for first, last, bits in json.loads(text):
        ports.update(dict.fromkeys(range(first, last + 1), bits))
    return ports


async def take(
    session: AsyncSession,
    row: CloudletRefsRow,
    instance: ClusterInstRow | AppInstRow,
    taken: Taken,
) -> None:
    """Let an instance have something, which its row remembers."""
    _write(row, plus(usage(row), taken))
    if isinstance(instance, ClusterInstRow):
        row.clusters = json.dumps([*json.loads(row.clusters), _name(instance)])
    instance.taken, instance.holds = taken.model_dump_json(), True
    await changes.note(session, Noun.CLOUDLET_REFS, [row.cloudlet])


async def give_back(
    session: AsyncSession, row: CloudletRefsRow, instance: ClusterInstRow | AppInstRow
) -> None:
    """Take back exactly what an instance has. One that has nothing keeps that."""
    if not instance.holds:
        return
    _write(row, minus(usage(row), Taken.model_validate_json(instance.taken)))
    if isinstance(instance, ClusterInstRow):
        names = json.loads(row.clusters)
        if (name := _name(instance)) in names:
            names.remove(name)
        row.clusters = json.dumps(names)
    instance.holds = False
    await changes.note(session, Noun.CLOUDLET_REFS, [row.cloudlet])


async def swap(
    session: AsyncSession, row: CloudletRefsRow, cluster: ClusterInstRow, taken: Taken
) -> None:
    """Let a cluster have something else than it has."""
    before = Taken.model_validate_json(cluster.taken)
    _write(row, plus(minus(usage(row), before), taken))
    cluster.taken = taken.model_dump_json()
    await changes.note(session, Noun.CLOUDLET_REFS, [row.cloudlet])


def _name(cluster: ClusterInstRow) -> str:
    return ClusterInst.model_validate_json(cluster.facts).key.cluster


def _write(row: CloudletRefsRow, now: Usage) -> None:
    row.ram, row.vcores, row.disk, row.addresses = now.ram, now.vcores, now.disk, now.addresses
    row.ports = written_ports(now.ports)


class CloudletRefs(Store):
    """What is taken, for those who show it."""

    @reading
    async def get(self, session: AsyncSession, key: str) -> CloudletStanding | None:
        row = await session.get(CloudletRefsRow, key)
        return None if row is None else _standing(row)

    @reading
    async def page(
        self, session: AsyncSession, after: str, most: int
    ) -> Sequence[CloudletStanding]:
        rows = await session.scalars(
            select(CloudletRefsRow)
            .where(CloudletRefsRow.cloudlet > after)
            .order_by(CloudletRefsRow.cloudlet)
            .limit(most)
        )
        return [_standing(row) for row in rows]


def _standing(row: CloudletRefsRow) -> CloudletStanding:
    return CloudletStanding(
        key=row.cloudlet,
        operator=row.operator,
        name=row.name,
        clusters=tuple(json.loads(row.clusters)),
        usage=usage(row),
    )


class ClusterRefs(Store):
    """What runs in clusters. Nothing is kept for it: it is told from the instances."""

    @reading
    async def get(self, session: AsyncSession, key: str) -> ClusterStanding | None:
        row = await session.get(ClusterInstRow, key)
        return None if row is None else (await _contents(session, [row]))[0]

    @reading
    async def page(self, session: AsyncSession, after: str, most: int) -> Sequence[ClusterStanding]:
        rows = await session.scalars(
            select(ClusterInstRow)
            .where(ClusterInstRow.key > after)
            .order_by(ClusterInstRow.key)
            .limit(most)
        )
        return await _contents(session, rows.all())


async def _contents(
    session: AsyncSession, clusters: Sequence[ClusterInstRow]
) -> list[ClusterStanding]:
    inside = await session.execute(
        select(AppInstRow.cluster, AppInstRow.facts)
        .where(AppInstRow.cluster.in_([row.key for row in clusters]))
        .order_by(AppInstRow.key)
    )
    found: dict[str, list[AppInst]] = {}
    for row in inside:
        found.setdefault(row.cluster, []).append(AppInst.model_validate_json(row.facts))
    named = {name_text(each.flavor) for some in found.values() for each in some}
    sizes = await session.scalars(
        select(RecordRow.facts).where(RecordRow.noun == Noun.FLAVOR, RecordRow.key.in_(named))
    )
    flavors = {size.name: size for size in map(Flavor.model_validate_json, sizes)}
    return [_content(row, found.get(row.key, []), flavors) for row in clusters]


def _content(
    row: ClusterInstRow, inside: Sequence[AppInst], flavors: dict[str, Flavor]
) -> ClusterStanding:
    sizes = [flavors[each.flavor] for each in inside if each.flavor in flavors]
    return ClusterStanding(
        key=row.key,
        cluster=ClusterInst.model_validate_json(row.facts),
        apps=tuple((each.key.developer, each.key.app, each.key.version) for each in inside),
        ram=sum(size.ram for size in sizes),
        vcores=sum(size.vcpus for size in sizes),
        disk=sum(size.disk for size in sizes),
    )
