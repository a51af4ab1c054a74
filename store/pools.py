"""Pools added to a cluster that stands, scaled, and taken away."""

from collections.abc import Collection, Sequence
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from domain.cluster import (
    ClusterOrder,
    ClusterPlan,
    Limits,
    PoolChange,
    PoolOrder,
    Retiring,
)
from domain.errors import AlreadyExists, Invalid, NotFound, Violation
from domain.frozen import Frozen
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.naming import CONTROL_PLANE
from domain.operation import Ask, Kind, Operation, OperationId
from domain.pools import EMPTY, ILL, WORKING, PoolSize, victims, without_control_plane
from domain.repairs import Choice, Prudence, choose, is_overdue
from domain.upgrades import joining
from store import answers, operations, plans, quotas, slots
from store.clusters import Building, hand_over, opened
from store.engine import Store, transaction
from store.repairs import as_patient, begin, refusal, silent_of
from store.rows import ClusterRow, OperationRow, PoolRow, SlotRow, now
from store.stocks import last_seen, refuse_what_never_fits


class Terms(Frozen):
    """What is decided for every change of pools and not by its request."""

    limits: Limits
    building: Building
    prudence: Prudence = Prudence()


class Pools(Store):
    @transaction
    async def request_add(
        self, session: AsyncSession, name: str, orders: Sequence[PoolOrder], terms: Terms, ask: Ask
    ) -> Operation:
        """New pools with all their slots: every one of them, or none."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        work = await _opened(session, name, Kind.ADD_NODE_POOL, ask)
        for order in orders:
            if order.name in work.pools:
                raise AlreadyExists(
                    f"cluster {name} has a pool {order.name} already",
                    subject=order.name,
                    do=f"windlass pool scale {name} {order.name}=N changes its size",
                )
        first = max((pool.ordinal for pool in work.pools.values()), default=-1) + 1
        for ordinal, order in enumerate(orders, start=first):
            work.pools[order.name] = row = slots.pool_row(work.cluster.uid, order, ordinal)
            session.add(row)
            work.resize(order.name, order.count)
        return await work.record(terms, ask)

    @transaction
    async def request_scale(
        self, session: AsyncSession, name: str, sizes: Sequence[PoolSize], terms: Terms, ask: Ask
    ) -> Operation | None:
        """Other sizes for pools, all or none. Asking for the present size makes good what is
        missing; if nothing is, it is a repair of the nodes that are not Ready for too long. None if
        there is nothing to do: every node is Ready, or may still come back by itself."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        if await answers.is_repeat(session, ask):
            return None
        work = await _opened(session, name, Kind.SCALE_NODE_POOL, ask)
        work.refuse_unknown([size.name for size in sizes])
        for size in sizes:
            work.resize(size.name, size.count)
        if work.is_change:
            return await work.record(terms, ask)
        pools = {size.name for size in sizes}
        if repaired := await work.repair(pools, terms.prudence, ask):
            return repaired
        answers.remember(session, ask)
        return None

    @transaction
    async def request_drop(
        self, session: AsyncSession, name: str, names: Sequence[str], terms: Terms, ask: Ask
    ) -> Operation:
        """Pools that are to go, all or none. Their names are free once their machines are given
        back."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        work = await _opened(session, name, Kind.DELETE_NODE_POOL, ask)
        work.refuse_unknown(names)
        for pool in dict.fromkeys(names):
            work.resize(pool, 0)
            work.dropping.append(pool)
        return await work.record(terms, ask)


class _Work:
    """A cluster held against everybody else, and what is to be changed in it."""

    def __init__(
        self,
        session: AsyncSession,
        kind: Kind,
        cluster: ClusterRow,
        pools: dict[str, PoolRow],
        rows: Sequence[SlotRow],
    ) -> None:
        self._session = session
        self._kind = kind
        self.cluster = cluster
        self.pools = pools
        self.dropping: list[str] = []
        self._rows = {row.name: row for row in rows}
        self._slots = list(map(slots.slot_state, rows))
        self._release = joining(self._slots)
        self._taken = set(self._rows)
        self._ordinal = max(row.ordinal for row in rows) + 1
        self._adding: list[Slot] = []
        self._readmitting: list[Slot] = []
        self._retiring: list[Retiring] = []
        self._grown: list[str] = []
        self._resized = False

    @property
    def is_change(self) -> bool:
        return bool(self._adding or self._readmitting or self._retiring)

    def refuse_unknown(self, names: Sequence[str]) -> None:
        """NotFound, before anything is changed, if one of these is no pool of the cluster."""
        for name in names:
            if name not in self.pools:
                there = ", ".join(self.pools) or "none"
                raise NotFound(
                    f"cluster {self.cluster.name} has no pool {name}",
                    subject=name,
                    reason="POOL_NOT_FOUND",
                    do=f"name one of its pools: {there}",
                )

    def resize(self, name: str, count: int) -> None:
        """Give a pool so many slots: the surplus is retired, and what is missing or holds no node
        is filled."""
        pool = self.pools[name]
        there = [self._fitting(state) for state in self._slots if state.slot.pool == name]
        going = victims(there, len(there) - count)
        self._retiring += map(_retiring, going)
        for state in there:
            if state in going or state.phase in {SlotPhase.HEALTHY, *ILL}:
                continue
            readmitted = state.phase is SlotPhase.DRAINING
            (self._readmitting if readmitted else self._adding).append(state.slot)
        if count > len(there):
            self._grown.append(name)
        order = slots.pool_order(pool, count)
        for _ in range(count - len(there)):
            like = self._slots[0].slot.model_copy(update={"release": self._release})
            self._adding.append(slot := plans.worker(like, order, self._taken))
            self._session.add(slots.slot_row(slot, self._ordinal, now()))
            self._slots.append(SlotState(slot=slot, phase=SlotPhase.PLANNED))
            self._ordinal += 1
        self._resized = self._resized or pool.wanted != count
        pool.wanted = count

    def _fitting(self, state: SlotState) -> SlotState:
        """The slot as it is to be filled. An empty one gets the release that fits by now; what is
        installed already joins as it is, and is upgraded with the others."""
        if state.phase not in EMPTY or state.slot.release == self._release:
            return state
        slot = state.slot.model_copy(update={"release": self._release})
        self._rows[slot.name].slot = slot.model_dump_json()
        fitting = state.model_copy(update={"slot": slot})
        self._slots[self._slots.index(state)] = fitting
        return fitting

    async def record(self, terms: Terms, ask: Ask) -> Operation:
        """Write down the change with its operation, unless the cluster would become too large, or
        nobody could carry it out."""
        await self._refuse_what_is_too_much(terms.limits)
        if not slots.working(self._slots):
            raise without_control_plane(self.cluster.name)
        operation = OperationId(str(uuid4()))
        latest = await operations.locked(self._session, self.cluster.operation)
        hand_over(self.cluster, operation, f"{self._kind}: accepted (op {operation})")
        subject = f"cluster/{self.cluster.name}"
        plan = self._plan(latest, terms.building)
        plans.refuse_what_is_too_large(plan)
        row = operations.record(self._session, operation, self._kind, subject, plan, ask)
        return operations.as_operation(row)

    async def repair(
        self, pools: Collection[str], prudence: Prudence, ask: Ask
    ) -> Operation | None:
        """Write down a repair of the nodes of these pools that are not Ready for too long. None if
        there is none. Conflict, with the reasons, if none of those may be mended now, unless
        another size was asked for: that is wanted in any case."""
        patients = {name: as_patient(row) for name, row in self._rows.items()}
        overdue = [
            name
            for name, each in patients.items()
            if each.state.slot.pool in pools and is_overdue(each, prudence, now())
        ]
        if not overdue:
            return None
        wanted = {name: pool.wanted for name, pool in self.pools.items()}
        silent = await silent_of(self._session, self.cluster)
        everyone = list(patients.values())
        choice = choose(everyone, prudence, now(), wanted=wanted, silent=silent)
        mending = tuple(each for each in choice.mending if each.named in overdue)
        if not mending and self._resized:
            return None
        if not mending:
            left = [why for why in choice.left_alone if why.split(" ", 1)[0] in overdue]
            raise refusal(self.cluster.name, left)
        latest = await operations.locked(self._session, self.cluster.operation)
        chosen, rows = Choice(mending=mending), list(self._rows.values())
        return begin(self._session, self.cluster, latest, rows, chosen, prudence, ask)

    def _plan(self, latest: OperationRow, building: Building) -> ClusterPlan:
        going = {each.named for each in self._retiring}
        staying = [state for state in self._slots if state.slot.name not in going]
        masters = tuple(machine.slot for machine in slots.working(staying))
        change = PoolChange(
            through=slots.working(staying),
            adding=tuple(self._adding),
            readmitting=tuple(self._readmitting),
            retiring=tuple(self._retiring),
            opening=masters if self._is_last_worker_going(staying) else (),
            closing=masters if self._is_first_worker_coming(staying) else (),
            dropping=tuple(self.dropping),
            drain_seconds=building.drain_seconds,
            drain_policy=building.drain_policy,
        )
        return ClusterPlan.model_validate_json(latest.plan).afresh(
            (state.slot for state in staying),
            release=self._release,
            workers_at_once=building.workers_at_once,
            change=change,
        )

    def _is_last_worker_going(self, staying: Sequence[SlotState]) -> bool:
        """Whether pods that run now have nowhere to go but to the control planes."""
        stays = any(state.slot.role is Role.WORKER for state in staying)
        return not stays and any(each.works for each in self._retiring)

    def _is_first_worker_coming(self, staying: Sequence[SlotState]) -> bool:
        """Whether there is no worker now, or none that we know of, and will be."""
        workers = [state for state in staying if state.slot.role is Role.WORKER]
        return bool(workers) and not any(state.phase in WORKING for state in workers)

    async def _refuse_what_is_too_much(self, limits: Limits) -> None:
        machines = sum(state.slot.role is Role.CONTROL_PLANE for state in self._slots)
        workers = sum(pool.wanted for pool in self.pools.values())
        if self._grown and machines + workers > limits.machines:
            raise self._beyond(f"{machines + workers} machines", limits.machines)
        if self._grown and len(self.pools) > limits.pools:
            raise self._beyond(f"{len(self.pools)} pools", limits.pools)
        if not self._grown:
            return
        pools = [self.pools[name] for name in self._grown]
        grown = [slots.pool_order(pool, pool.wanted) for pool in pools]
        rest = machines + workers - sum(pool.count for pool in grown)
        order = ClusterOrder(
            name=self.cluster.name,
            control_plane=PoolOrder(name=CONTROL_PLANE, count=rest),
            pools=tuple(grown),
        )
        refuse_what_never_fits(order, await last_seen(self._session))

    def _beyond(self, what: str, most: int) -> Invalid:
        description = f"{what} in one cluster, at most {most}"
        return Invalid(
            description,
            subject=self.cluster.name,
            do="ask for less, or give another cluster the rest",
            violations=[Violation(field="node_pools", description=description)],
        )


async def _opened(session: AsyncSession, name: str, kind: Kind, ask: Ask) -> _Work:
    """The cluster, held, if its pools may be changed now."""
    await quotas.refuse_more_running(session, kind, ask)
    cluster = await opened(session, ask.tenant, name, kind)
    pools = await slots.pools_of(session, cluster.uid)
    rows = await slots.slots_of(session, cluster.uid)
    return _Work(session, kind, cluster, {pool.name: pool for pool in pools}, rows)


def _retiring(state: SlotState) -> Retiring:
    return Retiring(machine=state.filled_by, works=state.phase in WORKING)
