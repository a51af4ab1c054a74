"""What is written of the edge, here and on the platform, and whether it agrees."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select

from domain.appinst import AppInst
from domain.clusterinst import ClusterInst
from domain.operation import TRACKED
from domain.tracking import TRANSIENT, Phase
from domain.usage import Taken, Usage, summed
from store.cloudlet_refs import usage
from store.edge_rows import AppInstRow, CloudletRefsRow, ClusterInstRow
from store.engine import Database
from store.rows import OperationRow


class Cluster(NamedTuple):
    key: str
    cluster: ClusterInst
    phase: Phase
    taken: Taken | None
    """None: it has nothing."""

    @property
    def name(self) -> str:
        return f"cluster {self.cluster.key.cluster}"


class App(NamedTuple):
    key: str
    instance: AppInst
    phase: Phase
    taken: Taken | None

    @property
    def name(self) -> str:
        return f"app {self.instance.key.app} in {self.instance.key.cluster.cluster}"


class Books(NamedTuple):
    clusters: list[Cluster]
    apps: list[App]
    usage: Usage
    """What is taken of the cloudlet, as its own row says."""
    operations: list[str]
    """Those that have not ended."""
    carried: set[str]
    """What the platform runs."""

    @property
    def instances(self) -> "list[Cluster | App]":
        return [*self.clusters, *self.apps]


async def read(database: Database, carried: Path) -> Books:
    """Everything about the one cloudlet there is, in one transaction, and then its platform."""
    async with database.session(writes=False) as session:
        clusters = (await session.scalars(select(ClusterInstRow))).all()
        apps = (await session.scalars(select(AppInstRow))).all()
        refs = (await session.scalars(select(CloudletRefsRow))).one_or_none()
        unended = OperationRow.kind.in_(TRACKED), OperationRow.ended.is_(None)
        running = (await session.scalars(select(OperationRow).where(*unended))).all()
    return Books(
        [
            Cluster(
                row.key, ClusterInst.model_validate_json(row.facts), Phase(row.phase), _has(row)
            )
            for row in clusters
        ],
        [
            App(row.key, AppInst.model_validate_json(row.facts), Phase(row.phase), _has(row))
            for row in apps
        ],
        Usage() if refs is None else usage(refs),
        [f"{row.kind} {row.subject} {row.stage} ({row.id})" for row in running],
        await asyncio.to_thread(_names, carried),
    )


def figures(books: Books) -> dict[str, Any]:
    """How much there is, as it is written once nothing contradicts anything."""
    usage = books.usage
    return {
        "states": dict(Counter(str(one.phase) for one in books.instances)),
        "ram": usage.ram,
        "vcores": usage.vcores,
        "ports": len(usage.ports),
        "addresses": usage.addresses,
        "carried": len(books.carried),
    }


def under_way(books: Books) -> list[str]:
    """What has not come to its end."""
    return [
        *(f"not ended: {text}" for text in books.operations),
        *(f"{one.key} is {one.phase}" for one in books.instances if one.phase in TRANSIENT),
    ]


def contradictions(books: Books) -> list[str]:
    """What is not as somebody else says."""
    return [*_of_usage(books), *_of_platform(books)]


def _of_usage(books: Books) -> list[str]:
    held = [one.taken for one in books.instances if one.taken is not None]
    total = summed(held)
    ports = Counter(port for taken in held for port in taken.ports)
    found = [f"port {port} is given to {count}" for port, count in ports.items() if count > 1]
    if total != books.usage:
        found.append(f"instances have {total}, and the cloudlet says {books.usage}")
    found += [
        f"{one.key} is READY and has nothing"
        for one in books.instances
        if one.phase is Phase.READY and one.taken is None
    ]
    for app in books.apps:
        mapped = {port.public for port in app.instance.ports}
        given = {number for number, _ in app.taken.ports} if app.taken else mapped
        if not given <= mapped:
            found.append(f"{app.key} has {given} and shows {mapped}")
    return found


def _of_platform(books: Books) -> list[str]:
    """What is in an error may be there in part: its way out is to be deleted."""
    known = {one.name for one in books.instances}
    ready = {one.name for one in books.instances if one.phase is Phase.READY}
    return [
        *(f"nobody knows of {name}, which runs" for name in sorted(books.carried - known)),
        *(f"{name} is READY and does not run" for name in sorted(ready - books.carried)),
    ]


def _names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def _stand(row: ClusterInstRow | AppInstRow) -> tuple[Phase, Taken | None]:
    return Phase(row.phase), _has(row)


def _has(row: ClusterInstRow | AppInstRow) -> Taken | None:
    return Taken.model_validate_json(row.taken) if row.holds else None
