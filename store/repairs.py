"""Repairs asked for, proposed and begun by themselves, and each cluster's policy about them."""

from collections.abc import Collection, Sequence
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from domain.admission import ADMISSION, Asked, Verdict
from domain.cluster import ClusterPlan, Phase
from domain.errors import Conflict, DomainError, NotFound
from domain.machine import Role, SlotPhase, SlotState
from domain.operation import Ask, Kind, Operation, OperationId, Stage
from domain.repairs import (
    Choice,
    Mending,
    Patient,
    Policy,
    Prudence,
    Remedy,
    Repair,
    choose,
    counted,
)
from domain.seen import Inside, Readiness
from domain.upgrades import joining
from domain.why import WORDS
from store import answers, operations, plans, quotas, slots
from store.clusters import hand_over, held, living, opened, unknown
from store.engine import Database, Store, reading, transaction
from store.rows import ClusterRow, OperationRow, SlotRow, WatchRow, now

MENDABLE = frozenset(
    phase for phase, row in ADMISSION.items() if row[Asked.REPAIR] is Verdict.ACCEPTED
)
"""The phases in which nodes may be mended: nothing else is being done."""

INSTALLED = frozenset({SlotPhase.DEPLOYING, SlotPhase.DEPLOYED})
"""The phases of a machine that has a release on its disk, or gets it there now."""

OURSELVES = "windlass"
"""Who asks for a repair that nobody asks for."""

PROPOSAL_LENGTH = 400


class Repairs(Store):
    def __init__(self, database: Database, prudence: Prudence) -> None:
        super().__init__(database)
        self._prudence = prudence

    @transaction
    async def request(
        self, session: AsyncSession, name: str, nodes: Sequence[str], ask: Ask
    ) -> Operation | None:
        """Mend what may be mended now: those nodes, or whatever does not work. None if all of them
        work. Conflict, with the reasons, if none of those that do not may be mended now."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        if await answers.is_repeat(session, ask):
            return None
        await quotas.refuse_more_running(session, Kind.REPAIR_CLUSTER, ask)
        cluster = await opened(session, ask.tenant, name, Kind.REPAIR_CLUSTER)
        latest = await operations.locked(session, cluster.operation)
        rows = await slots.slots_of(session, cluster.uid)
        _refuse_strangers(name, nodes, rows)
        patients = [as_patient(row) for row in rows]
        wanted = await _wanted(session, cluster)
        silent = await silent_of(session, cluster)
        choice = choose(patients, self._prudence, now(), wanted=wanted, silent=silent, named=nodes)
        if choice.mending:
            return begin(session, cluster, latest, rows, choice, self._prudence, ask)
        if choice.left_alone:
            raise refusal(name, choice.left_alone)
        answers.remember(session, ask)
        return None

    @transaction
    async def consider(self, session: AsyncSession, uid: str) -> Operation | None:
        """Do what the cluster's policy says about nodes that do not work: say what a repair would
        do, or begin one, which is the answer. While anything else is being done it is left; and
        what somebody called off is not undone: then it is only said, until somebody asks for
        something else."""
        found = await session.get(ClusterRow, uid)
        if found is None or found.phase == Phase.GONE:
            return None
        latest = await operations.locked(session, found.operation)
        await session.refresh(found, with_for_update=True)
        if found.operation != latest.id or latest.ended is None or found.phase not in MENDABLE:
            return None
        if found.policy == Policy.OFF:
            found.proposal = ""
            return None
        rows = await slots.slots_of(session, uid)
        unasked = found.policy == Policy.AUTOMATIC and latest.stage != Stage.CANCELLED
        patients = [as_patient(row) for row in rows]
        wanted = await _wanted(session, found)
        silent = await silent_of(session, found)
        choice = choose(
            patients, self._prudence, now(), wanted=wanted, silent=silent, unasked=unasked
        )
        if choice.mending and unasked:
            method = "windlass.v1.Health/Repair"
            ask = Ask(tenant=found.tenant, caller=OURSELVES, method=method)
            try:
                return begin(session, found, latest, rows, choice, self._prudence, ask)
            except DomainError as error:  # nothing of it is written; whoever looks on can read why
                proposal = f"a repair cannot be begun: {error}"[:PROPOSAL_LENGTH]
        else:
            proposal = _proposed(found.name, choice)
        if proposal != found.proposal:
            found.proposal = proposal
        return None

    @reading
    async def policy(self, session: AsyncSession, tenant: str, name: str) -> Policy:
        """What is done about the cluster's nodes while nobody asks."""
        cluster = await living(session, tenant, name)
        if cluster is None:
            raise unknown(name)
        return Policy(cluster.policy)

    @transaction
    async def set_policy(
        self, session: AsyncSession, tenant: str, name: str, policy: Policy
    ) -> Policy:
        """From the next look on this is done. What is proposed by now is not any more."""
        cluster, _ = await held(session, tenant, name)
        if cluster.policy != policy:
            cluster.policy, cluster.proposal = policy, ""
        return policy


def begin(
    session: AsyncSession,
    cluster: ClusterRow,
    latest: OperationRow,
    rows: Sequence[SlotRow],
    choice: Choice,
    prudence: Prudence,
    ask: Ask,
) -> Operation:
    """Write down a repair of what was chosen, for a cluster that is held."""
    states = [slots.slot_state(row) for row in rows]
    repair = _repair(states, choice, prudence)
    plan = _plan(latest, states, repair)
    plans.refuse_what_is_too_large(plan)
    mending = {each.named: each for each in repair.mending}
    for row in rows:
        if each := mending.get(row.name):
            row.slot = each.machine.slot.model_dump_json()
            row.mends, row.mended = counted(as_patient(row), prudence, now()), now()
    operation = OperationId(str(uuid4()))
    hand_over(cluster, operation, f"repair: accepted (op {operation})")
    subject = f"cluster/{cluster.name}"
    recorded = operations.record(session, operation, Kind.REPAIR_CLUSTER, subject, plan, ask)
    return operations.as_operation(recorded)


def refusal(cluster: str, left_alone: Sequence[str]) -> Conflict:
    """Why nothing is mended though something does not work."""
    return Conflict(
        f"nothing of cluster {cluster} can be mended now: {'; '.join(left_alone)}",
        subject=cluster,
        reason="NOTHING_MENDABLE",
        do=f"windlass cluster why {cluster} shows what is wrong",
    )


def _repair(states: Sequence[SlotState], choice: Choice, prudence: Prudence) -> Repair:
    doubted = {each.named for each in choice.mending if each.remedy is Remedy.REVIVE}
    phases = {state.slot.name: state.phase for state in states}
    release = joining(states)
    return Repair(
        through=tuple(each for each in slots.working(states) if each.named not in doubted),
        mending=tuple(
            each.joining(release) if _joins(each, phases[each.named]) else each
            for each in choice.mending
        ),
        ready_seconds=prudence.ready_seconds,
    )


def _joins(mending: Mending, phase: SlotPhase) -> bool:
    """Whether another machine may be made its node. A worker that is installed already joins as it
    is, and is upgraded with the others."""
    if mending.remedy is Remedy.REVIVE:
        return mending.replaceable
    installed = phase in INSTALLED and mending.machine.slot.role is Role.WORKER
    return mending.remedy is Remedy.FILL and not installed


def _plan(latest: OperationRow, states: Sequence[SlotState], repair: Repair) -> ClusterPlan:
    mended = {each.named: each.machine.slot for each in repair.mending}
    found = [mended.get(state.slot.name, state.slot) for state in states]
    return ClusterPlan.model_validate_json(latest.plan).afresh(found, repair=repair)


def as_patient(row: SlotRow) -> Patient:
    state = slots.slot_state(row)
    since = state.node.since if state.node and state.node.readiness is not Readiness.READY else None
    return Patient(state=state, since=since or row.changed, mends=row.mends, mended=row.mended)


async def _wanted(session: AsyncSession, cluster: ClusterRow) -> dict[str, int]:
    return {pool.name: pool.wanted for pool in await slots.pools_of(session, cluster.uid)}


async def inside_of(session: AsyncSession, cluster: ClusterRow) -> Inside | None:
    """What its hosts said when they were last asked."""
    watch = await session.get(WatchRow, cluster.uid)
    return Inside.model_validate_json(watch.inside) if watch and watch.inside else None


async def silent_of(session: AsyncSession, cluster: ClusterRow) -> tuple[str, ...]:
    """The members of its etcd that did not answer when they were last asked."""
    inside = await inside_of(session, cluster)
    return inside.silent if inside else ()


def _proposed(name: str, choice: Choice) -> str:
    """What a repair would do, with the command; or why it would not do anything."""
    if choice.mending:
        wanted = "; ".join(f"{each.named}: {WORDS[each.remedy]}" for each in choice.mending)
        return f"proposed: windlass cluster repair {name} ({wanted})"[:PROPOSAL_LENGTH]
    return "; ".join(choice.left_alone)[:PROPOSAL_LENGTH]


def _refuse_strangers(name: str, nodes: Collection[str], rows: Sequence[SlotRow]) -> None:
    there = {row.name for row in rows}
    for node in nodes:
        if node not in there:
            raise NotFound(
                f"cluster {name} has no node {node}",
                subject=node,
                reason="NODE_NOT_FOUND",
                do=f"windlass cluster nodes {name} shows the nodes it has",
            )
