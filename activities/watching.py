"""Looking after clusters that stand: for minutes on end, without a word while all is as it was."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TypeVar

from temporalio import activity

from activities.waiting import beating
from domain.errors import DomainError, Unavailable
from domain.frozen import Frozen
from domain.health import Tolerance, Watched, is_expiring, judge, leading, uncounted
from domain.machine import Machine
from domain.ports import ClusterApi, Endpoints, MachinePool, Node, Nodes
from domain.seen import Inside, Led, MachineSeen, NodeSeen, Readiness, Sight, Tour
from store.watches import Watches

Answer = TypeVar("Answer")

BEAT_SECONDS = 20.0
"""How often it is told during a look that it goes on: there are as many as clusters."""

API_SECONDS = 30.0
MACHINES_SECONDS = 10.0
HOSTS_SECONDS = 45.0
"""How long a look waits for each of those it asks. What hangs must not keep it from telling what
the others say."""

LOOKS_AT_ONCE = 32
"""Looks in the same moment, per process: a thousand tours that begin together look in turn."""

WORDS = 300
"""So much is kept of why an API gave no answer."""


class Rhythm(Frozen):
    """How often it is looked."""

    look_seconds: float = 15.0
    """Between two looks at a cluster."""
    tour_seconds: float = 300.0
    """After so long a tour ends though there is nothing new."""
    inspect_seconds: float = 300.0
    """Between two times that hosts are logged into."""


class Patrol(Frozen):
    """A cluster that is looked after."""

    uid: str
    rested: bool = False
    """Whether nothing was new the last time. If something was, the first look waits its turn: a
    cluster that changes all the time is written down once in a while."""

    @property
    def named(self) -> str:
        return self.uid


class Watching:
    """Reads what the rows say of a cluster, looks whether it is so, and returns when it is not; and
    does what a cluster needs that nobody works on. It writes no row itself."""

    def __init__(
        self,
        watches: Watches,
        api: ClusterApi,
        pool: MachinePool,
        nodes: Nodes,
        names: Endpoints,
        rhythm: Rhythm,
        tolerance: Tolerance,
    ) -> None:
        self._watches = watches
        self._api = api
        self._pool = pool
        self._nodes = nodes
        self._names = names
        self._rhythm = rhythm
        self._tolerance = tolerance
        self._room = asyncio.Semaphore(LOOKS_AT_ONCE)

    @activity.defn(name="watching.tour")
    async def tour(self, patrol: Patrol) -> Tour:
        """Look again and again until something is new or the tour's time is over. When the process
        goes down another takes the tour up. Safe to repeat: it only looks."""
        began, inspected = monotonic(), None
        if not patrol.rested:
            await self._pause()
        while True:
            activity.heartbeat()
            async with beating(BEAT_SECONDS), self._room:
                tour = await self._look(patrol.uid, inspected)
            inspected = tour.inspected
            if tour.over or tour.is_news or monotonic() - began >= self._rhythm.tour_seconds:
                return tour
            await self._pause()

    @activity.defn(name="watching.lead")
    async def lead(self, patrol: Patrol) -> Led:
        """Lead the endpoint to the control planes that are Ready, unless an operation has the say.
        Safe to repeat. A delete that came meanwhile may have taken the name away before: then it
        is taken away again. Another operation may have led it elsewhere, which the region undid if
        it took its time with ours: then it leads to those that are Ready by now."""
        watched = await self._watches.watched(patrol.uid)
        if watched is None or not watched.judged:
            return Led(uid=patrol.uid)
        endpoint = leading(watched, watched.finding)
        if endpoint is None:
            return Led(uid=patrol.uid)
        await self._names.ensure(endpoint)
        now = await self._watches.watched(patrol.uid)
        if now is None or not now.stands:
            await self._names.remove(endpoint)
        elif now.operation != watched.operation:
            undone = now.model_copy(update={"led": endpoint.addresses})
            if again := leading(undone, now.finding):
                await self._names.ensure(again)
        return Led(uid=patrol.uid, operation=watched.operation, addresses=endpoint.addresses)

    @activity.defn(name="watching.renew_access")
    async def renew_access(self, patrol: Patrol) -> None:
        """Renew the kubeconfig that we keep. Safe to repeat, and whatever else is being done."""
        watched = await self._watches.watched(patrol.uid)
        if watched is not None and watched.stands and watched.control_planes:
            await self._nodes.renew_access(watched.control_planes)

    @activity.defn(name="watching.disown")
    async def disown(self, patrol: Patrol) -> None:
        """Take our mark off nodes that somebody else opened, unless an operation has the say.
        Safe to repeat: a node that is closed again keeps it."""
        watched = await self._watches.watched(patrol.uid)
        if watched is None or not watched.judged:
            return
        _, nodes = await self._of_api(watched)
        marked = {node.name for node in nodes or () if _is_reopened(node)}
        for state in watched.finding.slots:
            if state.slot.name in marked:
                await self._api.disown(watched.node.model_copy(update={"slot": state.slot}))

    async def _pause(self) -> None:
        """Wait until the next look is due. Never quite as long as the last time, or all clusters
        would be looked at in the same moment."""
        seconds = self._rhythm.look_seconds * random.uniform(0.8, 1.0)  # noqa: S311 (no secret)
        with suppress(TimeoutError):
            await asyncio.wait_for(activity.wait_for_worker_shutdown(), seconds)
            raise Unavailable("this worker goes down", reason="WORKER_STOPPING")

    async def _look(self, uid: str, inspected: datetime | None) -> Tour:
        watched = await self._watches.watched(uid)
        if watched is None or not watched.stands:
            return Tour(uid=uid, over=True)
        if not watched.judged:
            return Tour(uid=uid, inspected=inspected)
        sight = await self._sight(watched, inspected or watched.inspected)
        if sight.inside is not None:
            inspected = sight.taken
        finding = judge(watched, sight, self._tolerance)
        as_it_was = finding == watched.finding
        return Tour(
            uid=uid,
            sight=None if as_it_was else sight,
            confirmed=sight.taken if as_it_was else None,
            inspected=inspected,
            astray=leading(watched, finding) is not None,
            expiring=is_expiring(sight.inside, sight.taken, self._tolerance),
            reopened=any(map(_is_reopened, sight.nodes or ())),
        )

    async def _sight(self, watched: Watched, inspected: datetime | None) -> Sight:
        """What there is to see now. What cannot be asked is left out; only an API that gives no
        answer is news by itself."""
        taken = datetime.now(UTC)
        (unanswered, nodes), machines = await asyncio.gather(
            self._of_api(watched), self._of_machines(watched)
        )
        inside = watched.finding.inside
        doubtful = (inside and inside.silent) or uncounted(watched.finding.slots, inside)
        due = inspected is None or taken - inspected >= self._inspection
        if due or unanswered or doubtful:
            inside = await self._of_hosts(watched)
        else:
            inside = None
        return Sight(
            uid=watched.uid,
            taken=taken,
            operation=watched.operation,
            unanswered=unanswered,
            nodes=nodes and await self._with_servers(watched, nodes),
            machines=machines,
            inside=inside,
        )

    @property
    def _inspection(self) -> timedelta:
        return timedelta(seconds=self._rhythm.inspect_seconds)

    async def _of_api(self, watched: Watched) -> tuple[str, tuple[NodeSeen, ...] | None]:
        """Why the API gave no answer, or its nodes; those that are no slots are somebody else's."""
        ours = {state.slot.name for state in watched.finding.slots}
        try:
            async with asyncio.timeout(API_SECONDS):
                found = await self._api.observe(watched.node)
        except DomainError as error:
            return error.message[:WORDS], None
        except TimeoutError:
            return f"it did not list its nodes within {API_SECONDS:g} s", None
        return "", tuple(node for node in found if node.name in ours)

    async def _with_servers(
        self, watched: Watched, nodes: tuple[NodeSeen, ...]
    ) -> tuple[NodeSeen, ...]:
        """The same nodes, with whether the API servers of those that are Ready answer. The only one
        there is has just answered."""
        masters = watched.control_planes
        if len(masters) < 2:
            return nodes
        ready = {node.name for node in nodes if node.readiness is Readiness.READY}
        asked = [machine for machine in masters if machine.slot.name in ready]
        answers = await asyncio.gather(*(self._serves(watched, each) for each in asked))
        deaf = {each.slot.name for each, serves in zip(asked, answers, strict=True) if not serves}
        return tuple(
            node.model_copy(update={"serves": False}) if node.name in deaf else node
            for node in nodes
        )

    async def _serves(self, watched: Watched, master: Machine) -> bool:
        node = Node(slot=master.slot, endpoint=watched.endpoint, addresses=(master.address,))
        return bool(await _within(API_SECONDS, self._api.serves(node)))

    async def _of_machines(self, watched: Watched) -> tuple[MachineSeen, ...] | None:
        return await _within(MACHINES_SECONDS, self._pool.seen(watched.machines))

    async def _of_hosts(self, watched: Watched) -> Inside | None:
        if not watched.control_planes:
            return None
        return await _within(HOSTS_SECONDS, self._nodes.inside(watched.control_planes))


async def _within(seconds: float, answer: Awaitable[Answer]) -> Answer | None:
    """The answer; None if there is none in that time."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except (DomainError, TimeoutError):
        return None


def _is_reopened(node: NodeSeen) -> bool:
    return node.closed_by_us and node.schedulable
