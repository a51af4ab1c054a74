"""Watching what was made: whether it is there and runs, asked of the platform again and again.

A state of the contract says how far work has come, and nothing of what becomes of it afterwards. So
what is wrong with something that is READY stands in its errors, as `domain/health_errors.py` has
it, and in those of the cloudlet."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from agent.crm.care import ordered
from agent.crm.names import Instance, spoken
from agent.crm.platform import AppOrder, Platform, Standing
from agent.crm.replica import Replica
from agent.crm.reports import Reports
from domain.errors import DomainError
from domain.health_errors import of_health, said_of
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstRuntime
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import READY

WATCH_SECONDS = 4.0
"""Between two inspections."""

INSPECT_SECONDS = 8.0
"""One takes no longer. So whoever asks sees within 15 s what is so."""

TOLD = 20
"""So many faults are listed of a cloudlet."""

log = structlog.get_logger()


class Counts(NamedTuple):
    """What runs by the last inspection, and what does not, though it should."""

    clusters: int = 0
    apps: int = 0
    clusters_unhealthy: int = 0
    apps_unhealthy: int = 0
    nodes: int = 0


class PlatformWatch:
    def __init__(
        self,
        platform: Platform,
        replica: Replica,
        reports: Reports,
        is_busy: Callable[[Instance], bool],
        tell: Callable[[Sequence[str], bool], None],
        adopted: Callable[[], Awaitable[None]],
    ) -> None:
        """`is_busy`: whether something is being worked on, and is told of by whoever does so.
        `tell` is given the faults of the cloudlet and whether its platform answers, every time."""
        self._platform, self._replica, self._reports = platform, replica, reports
        self._is_busy, self._tell, self._adopted = is_busy, tell, adopted
        self.counts: Counts | None = None
        """None: it is not known."""

    async def run(self) -> None:
        """Watch until cancelled, once it is known what belongs to which instance."""
        await self._adopted()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self.inspect()

    async def inspect(self) -> None:
        """Ask the platform how everything stands that is READY, and report what differs from what
        the controller knows."""
        clusters = [each for each in self._ready() if isinstance(each, ClusterInst)]
        orders = list(self._orders())
        try:
            async with asyncio.timeout(INSPECT_SECONDS):
                standings = await self._platform.inspect(clusters, orders)
        except TimeoutError:
            self._unknown(f"the platform did not answer within {INSPECT_SECONDS:g} s")
        except DomainError as error:
            self._unknown(error.message)
        except Exception:
            log.exception("inspecting went wrong")
            self._unknown("the platform cannot be inspected: internal error")
        else:
            self._take([*clusters, *(order.instance for order in orders)], standings)

    def _ready(self) -> Iterable[Instance]:
        for each in self._replica.instances():
            if each.state == READY and not self._is_busy(each):
                yield each

    def _orders(self) -> Iterable[AppOrder]:
        for each in self._ready():
            if isinstance(each, AppInst):
                try:
                    yield ordered(self._replica, each)
                except DomainError as error:  # it has not been told of everything yet
                    log.info("not inspected", instance=spoken(each), why=error.message)

    def _unknown(self, why: str) -> None:
        self.counts = None
        self._tell([why], False)

    def _take(self, inspected: Sequence[Instance], standings: Mapping[str, Standing]) -> None:
        numbers = dict.fromkeys(Counts._fields, 0)
        faults: list[str] = []
        for each in inspected:
            standing = standings.get(self._platform.name(each))
            if standing is None:
                continue
            noun = "clusters" if isinstance(each, ClusterInst) else "apps"
            numbers[f"{noun}_unhealthy" if standing.faults else noun] += 1
            numbers["nodes"] += standing.nodes or 0
            faults += [f"{spoken(each)} {fault}" for fault in standing.faults]
            self._report(each, standing)
        self.counts = Counts(**numbers)
        more = len(faults) - TOLD
        self._tell([*faults[:TOLD], *([f"and {more} more"] if more > 0 else [])], True)

    def _report(self, instance: Instance, standing: Standing) -> None:
        """Say how it stands, unless the controller knows, or something else has happened to it
        while the platform was asked."""
        now = self._now(instance)
        if now is None or now.state != READY or self._is_busy(now):
            return
        kind: Any = ClusterInstInfo if isinstance(now, ClusterInst) else AppInstInfo
        said = self._reports.get(kind, now.key)
        if said is not None and said.state != READY:
            return  # a change of it that failed is being taken back
        info = kind(key=now.key, state=READY, errors=said_of(standing.faults))
        known = of_health(now.errors) == of_health(info.errors)
        if isinstance(now, AppInst):
            there = list(now.runtime_info.container_ids)
            containers = there if standing.containers is None else list(standing.containers)
            info.runtime_info.CopyFrom(AppInstRuntime(container_ids=containers))
            known = known and containers == there
        if not known and info != said:
            log.info("reported", instance=spoken(now), faults=standing.faults)
            self._reports.put(info)

    def _now(self, instance: Instance) -> Any:
        if isinstance(instance, ClusterInst):
            return self._replica.cluster(instance.key)
        return self._replica.instance(instance.key)
