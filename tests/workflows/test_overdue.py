"""What becomes of nodes in the making when time runs out, on a server whose clock jumps."""

from collections import Counter
from functools import partial

import pytest
from temporalio.testing import WorkflowEnvironment

from domain.errors import DomainError, Failed, Unavailable
from domain.machine import Slot
from domain.operation import Stage, StepKey
from store.engine import Database
from store.secrets import Secrets
from tests.workflows.conftest import Opening
from tests.workflows.test_deadlines import over
from tests.workflows.test_repairs import broken, made_good
from tests.workflows.yard import Yard, yard
from workflows.policies import OPERATION_DEADLINE

HALF_HOUR = 30
"""So many tries have those steps that are tried for half an hour."""

SHORT_OF_TWO_HOURS = 228
"""Tries for a machine, of those that make two hours."""


class Late:
    """Whoever becomes a node in the slot gets its first machine after two hours, which is sour,
    and its second after two more. A quarter of an hour is left then, and `verb` fails all along."""

    def __init__(self, slot: str, verb: str) -> None:
        self._slot = slot
        self._verb = verb
        self._asked: Counter[str] = Counter()
        self._joined = False
        self._failing = ""

    def __call__(self, key: StepKey) -> DomainError | None:
        if key.undo:
            return None
        mine = key.subject == self._slot
        if mine and key.verb == "machines.allocate":
            self._asked[str(key)] += 1
            away = self._asked[str(key)] < SHORT_OF_TWO_HOURS
            return Unavailable("the region is away") if away else None
        if mine and key.verb == "machines.deploy" and key.turn == 1:
            return Failed("it is sour")
        self._joined = self._joined or (mine and key.verb == "kubeadm.join")
        if self._joined and not self._failing and key.verb == self._verb:
            self._failing = str(key)
        return Unavailable("it hangs") if str(key) == self._failing else None


@pytest.fixture
def opened(
    time_skipping: WorkflowEnvironment, database: Database, vault: Secrets, queues: str
) -> Opening:
    return partial(yard, time_skipping.client, database, vault, queues)


LATE = pytest.mark.parametrize("verb", ["kubeadm.join", "kubernetes.wait_node", "endpoints.ensure"])


async def assert_nothing_of(place: Yard, slot: Slot) -> None:
    """Who is a node, who counts in etcd, who is listed and whom the endpoint leads to are the same,
    and it is not that slot."""
    cluster = await place.clusters.get("blue")
    nodes = {metal.node: metal for metal in place.world.machines if metal.node}
    masters = [metal for metal in nodes.values() if metal.server]
    assert slot.name not in nodes
    assert place.world.held_by(slot.agent_name) is None
    assert place.world.nodes[cluster.uid] == set(nodes)
    members = place.world.members[cluster.uid]
    assert sorted(members) == sorted(metal.system_id for metal in masters)
    assert set(place.world.names[cluster.endpoint]) == {metal.address for metal in masters}


@LATE
async def test_a_creation_keeps_nothing_of_a_control_plane_that_is_late(
    opened: Opening, time_skipping: WorkflowEnvironment, verb: str
) -> None:
    async with opened() as place:
        asked = await place.ask(3, 0)
        slot = (await place.operations.plan(asked.id)).control_plane[-1]
        place.trouble.fail = Late(slot.name, verb)
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= OPERATION_DEADLINE
        assert "not done within 4:00:00" in (await place.clusters.get("blue")).message
        await assert_nothing_of(place, slot)
        await made_good(place)


@LATE
async def test_a_repair_keeps_nothing_of_a_control_plane_that_is_late(
    opened: Opening, time_skipping: WorkflowEnvironment, verb: str
) -> None:
    async with opened() as place:
        asked = await broken(place, "control plane missing")
        repair = (await place.operations.plan(asked.id)).repair
        assert repair is not None
        [mending] = repair.mending
        place.trouble.fail = Late(mending.named, verb)
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= OPERATION_DEADLINE
        failure = (await place.operations.get(asked.id)).failure
        assert failure is not None
        assert "not done within 4:00:00" in failure.message
        await assert_nothing_of(place, mending.machine.slot)
        await made_good(place)


class NeverBack:
    """A node that nobody hears of for more than three hours, and then it is said not to come back.
    In the quarter of an hour that is left etcd does not say whether it let it go."""

    LOOKS = 1240

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def __call__(self, key: StepKey) -> DomainError | None:
        if key.undo:
            return None
        self._tries[key.verb] += 1
        tries = self._tries[key.verb]
        match key.verb:
            case "kubernetes.check_node":
                if tries < HALF_HOUR:
                    return Unavailable("the API is silent")
                return Failed("it is not Ready", reason="NODE_NOT_READY")
            case "kubernetes.wait_return":
                if tries < self.LOOKS:
                    return Unavailable("the API is silent")
                return Failed("it is not Ready", reason="NODE_NOT_READY")
            case "kubeadm.leave":
                return Unavailable("etcd is silent")
        return None


async def test_a_control_plane_that_is_half_out_when_time_is_up_is_taken_out(
    opened: Opening, time_skipping: WorkflowEnvironment
) -> None:
    async with opened() as place:
        asked = await broken(place, "control plane restarted")
        repair = (await place.operations.plan(asked.id)).repair
        assert repair is not None
        [mending] = repair.mending
        metal = place.world.metal(mending.machine)
        metal.powered = True
        place.trouble.fail = NeverBack()
        await place.start(asked)
        assert await over(place, asked.id, time_skipping) >= OPERATION_DEADLINE
        operation = await place.operations.get(asked.id)
        assert (operation.stage, metal.owner) == (Stage.FAILED, "")
        assert place.world.dead_members((await place.clusters.get("blue")).uid) == []
        await assert_nothing_of(place, mending.machine.slot)
        await made_good(place)
