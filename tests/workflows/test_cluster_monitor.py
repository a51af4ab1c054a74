"""A cluster's monitor: the status says how the cluster is, whatever happens, and never what an
operation has the say about."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from activities import sweeping, watching
from activities.watching import Rhythm
from domain.cluster import Phase
from domain.machine import SlotPhase
from domain.operation import Stage
from sim.world import Metal
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.conftest import Opening
from tests.workflows.yard import Yard
from workflows.policies import TOURS_PER_RUN
from workflows.sweep import Sweep

RUNNING = WorkflowExecutionStatus.RUNNING

RHYTHM = Rhythm()
"""How often it is looked in earnest."""

SUGGESTED = 4096
"""The number of events at which Temporal asks for a new run; it ends one of 51,200."""


async def _metal(place: Yard, number: int) -> Metal:
    """What fills a slot of `blue`; the control plane comes first."""
    state = (await place.clusters.nodes("blue")).slots[number]
    held = place.world.held_by(state.slot.agent_name)
    assert held is not None
    return held


async def _phase(place: Yard, number: int) -> SlotPhase:
    return (await place.clusters.nodes("blue")).slots[number].phase


async def _handle(place: Yard) -> WorkflowHandle[Any, Any]:
    return place.client.get_workflow_handle(f"monitor-{(await place.clusters.get('blue')).uid}")


async def _touring(place: Yard) -> bool:
    """A worker is known to be looking. What is given to one in the moment it goes, and was never
    heard of, is missed only when its time is over."""
    told = await (await _handle(place)).describe()
    return any(
        pending.activity_type.name == "watching.tour" and pending.HasField("last_heartbeat_time")
        for pending in told.raw_description.pending_activities
    )


async def test_a_node_without_power_degrades_and_one_that_is_back_runs(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        worker = await _metal(place, 1)
        worker.powered = False
        cluster = await place.turns(Phase.DEGRADED, f"machine {worker.system_id} of ")
        assert f"{worker.node} is lost (NodeStatusUnknown)" in cluster.message
        assert f"{worker.system_id} of {worker.node} is off" in cluster.message
        assert await _phase(place, 1) is SlotPhase.LOST
        worker.powered = True
        await place.turns(Phase.RUNNING)
        assert await _phase(place, 1) is SlotPhase.HEALTHY


async def test_an_api_that_stays_silent_is_an_error_until_it_answers(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        uid = (await place.clusters.get("blue")).uid
        place.world.unanswering.add(uid)
        await place.turns(Phase.RUNNING, "the API has given no answer")
        await place.turns(Phase.ERROR, "the API has given no answer")
        assert await _phase(place, 1) is SlotPhase.LOST
        place.world.unanswering.discard(uid)
        cluster = await place.turns(Phase.RUNNING)
        assert "answer" not in cluster.message


async def test_systems_that_take_questions_and_answer_none_are_not_waited_for(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    for longest in ("API_SECONDS", "MACHINES_SECONDS", "HOSTS_SECONDS"):
        monkeypatch.setattr(watching, longest, 0.5)
    async with opened() as place:
        await place.create()
        await place.monitor()
        place.world.hanging |= {"machines", "hosts"}
        worker = await _metal(place, 1)
        worker.powered = False
        await place.turns(Phase.DEGRADED, f"{worker.node} is lost")
        place.world.hanging.add("api")
        await place.turns(Phase.ERROR, "it did not list its nodes within 0.5 s")
        worker.powered = True
        place.world.hanging.clear()
        await place.turns(Phase.RUNNING)


async def test_a_lost_quorum_is_an_error_and_one_member_of_three_is_not(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 0)
        await place.monitor()
        second, third = await _metal(place, 1), await _metal(place, 2)
        second.powered = False
        await place.turns(Phase.DEGRADED, f"etcd member {second.node} does not answer")
        third.powered = False
        await place.turns(Phase.ERROR, "etcd has lost its quorum: 1 of 3 members answer")
        second.powered = True
        await place.turns(Phase.DEGRADED, f"etcd member {third.node} does not answer")
        third.powered = True
        await place.turns(Phase.RUNNING)


async def test_nobody_is_led_to_an_api_server_that_does_not_answer(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 0)
        await place.monitor()
        endpoint = (await place.clusters.get("blue")).endpoint
        every = {(await _metal(place, number)).address for number in range(3)}
        await until(lambda: set(place.world.names[endpoint]) == every)
        second = await _metal(place, 1)
        place.world.deaf.add(second.system_id)
        await place.turns(Phase.DEGRADED, f"the API server on {second.node} does not answer")
        await until(lambda: set(place.world.names[endpoint]) == every - {second.address})
        place.world.deaf.clear()
        await place.turns(Phase.RUNNING)
        await until(lambda: set(place.world.names[endpoint]) == every)


async def test_a_control_plane_that_etcd_does_not_count_is_told(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 0)
        await place.monitor()
        third = await _metal(place, 2)
        members = place.world.members[(await place.clusters.get("blue")).uid]
        members.remove(third.system_id)
        await place.turns(Phase.DEGRADED, f"{third.node} is no member of etcd")
        members.append(third.system_id)
        await place.turns(Phase.RUNNING)


async def test_a_machine_taken_from_us_and_one_that_breaks_are_told(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        worker = await _metal(place, 1)
        ours, worker.owner = worker.owner, "somebody-else"
        await place.turns(Phase.DEGRADED, "was taken from us in MAAS")
        worker.owner, worker.status = ours, "Broken"
        await place.turns(Phase.DEGRADED, f"{worker.system_id} of {worker.node} is Broken in MAAS")
        assert (await place.clusters.nodes("blue")).slots[1].status == "Broken"
        worker.status = ""
        await place.turns(Phase.RUNNING)


async def test_a_node_that_somebody_opened_does_not_count_as_closed_by_us(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        closed, reopened = (await _metal(place, 0)).node, (await _metal(place, 1)).node
        assert closed
        assert reopened
        place.world.marked |= {closed, reopened}
        place.world.cordoned.add(closed)
        await place.monitor()
        await until(lambda: place.world.marked == {closed})
        await place.turns(Phase.DEGRADED, f"{closed} takes no pods")
        assert place.world.marked == {closed}


async def test_certificates_near_their_end_are_told_in_time(opened: Opening) -> None:
    async with opened(rhythm=Rhythm(look_seconds=0.05, inspect_seconds=0.1)) as place:
        await place.create()
        await place.monitor()
        place.world.expires = datetime.now(UTC) + timedelta(days=29)
        await place.turns(Phase.RUNNING, f"expire on {place.world.expires:%Y-%m-%d}")


async def test_the_endpoint_leads_to_the_control_planes_that_are_ready(opened: Opening) -> None:
    async with opened() as place:
        await place.create(3, 0)
        cluster, addresses = (
            await place.clusters.get("blue"),
            [(await _metal(place, number)).address for number in range(3)],
        )

        def leads_to(*numbers: int) -> bool:
            return set(place.world.names[cluster.endpoint]) == {addresses[n] for n in numbers}

        await place.monitor()
        assert leads_to(0, 1, 2)
        first = await _metal(place, 0)
        first.powered = False
        await until(lambda: leads_to(1, 2))
        first.powered = True
        await until(lambda: leads_to(0, 1, 2))
        await place.delete()
        await place.client.get_workflow_handle(f"monitor-{cluster.uid}").result()
        assert place.world.leftovers == []


async def test_a_kubeconfig_near_its_end_is_renewed(opened: Opening) -> None:
    async with opened(rhythm=Rhythm(look_seconds=0.05, inspect_seconds=0.1)) as place:
        place.world.admitted_until = near = datetime.now(UTC) + timedelta(days=20)
        await place.create()
        await place.monitor()
        await until(lambda: place.world.admitted_until != near)
        cluster = await place.turns(Phase.RUNNING)
        assert "kubeconfig" not in cluster.message


async def test_while_an_operation_runs_nothing_is_said_against_it(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        asked = await place.ask_scale("w", 2)
        assert asked is not None
        worker = await _metal(place, 1)
        worker.powered = False
        watched = await place.watches.watched((await place.clusters.get("blue")).uid)
        assert watched is not None
        assert not watched.judged
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.SUCCEEDED
        await place.turns(Phase.DEGRADED, f"{worker.node} is lost")
        worker.powered = True
        await place.turns(Phase.RUNNING, "scale")


async def test_it_ends_with_its_cluster(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        handle = place.client.get_workflow_handle(await place.monitor())
        await place.delete()
        await handle.result()
        assert (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED
        assert place.world.leftovers == []


async def test_it_goes_on_when_its_worker_does(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        await place.turns(Phase.RUNNING)
        worker = await _metal(place, 1)
        await until(partial(_touring, place))
    for powered, phase in ((False, Phase.DEGRADED), (True, Phase.RUNNING)):
        worker.powered = powered  # while nobody looks
        async with opened(world=place.world) as place:
            await place.turns(phase)
            await until(partial(_touring, place))


async def test_every_cluster_that_stands_gets_one_from_the_sweep_and_one_alone(
    opened: Opening,
) -> None:
    async with opened() as place:
        sweep = partial(
            place.client.execute_workflow, Sweep.run, task_queue=f"{place.prefix}workflows"
        )
        asked = await place.ask()
        await sweep(id=f"sweep-{uuid4()}")
        assert await place.watches.unheard(900) == [], "nothing stands yet"
        await place.carry_out(asked)
        await asyncio.gather(*(sweep(id=f"sweep-{uuid4()}") for _ in range(3)))
        description = await (await _handle(place)).describe()
        assert description.status is WorkflowExecutionStatus.RUNNING
        (await _metal(place, 1)).powered = False
        await place.turns(Phase.DEGRADED)


async def test_one_that_was_ended_by_hand_is_replaced(opened: Opening) -> None:
    async with opened() as place:
        await place.create()
        await place.monitor()
        await (await _handle(place)).terminate()
        (await _metal(place, 1)).powered = False
        await place.client.execute_workflow(
            Sweep.run, id=f"sweep-{uuid4()}", task_queue=f"{place.prefix}workflows"
        )
        await place.turns(Phase.DEGRADED)


async def test_one_that_is_gone_is_replaced_at_once_though_it_was_heard_of_just_now(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rows say after a backup was restored."""
    monkeypatch.setattr(sweeping, "MONITORS_SECONDS", 0.0)
    async with opened() as place:
        await place.create()
        await place.monitor()
        cluster = (await place.clusters.get("blue")).uid
        await (await _handle(place)).terminate()
        await place.watches.heard(cluster)
        assert await place.watches.unheard(900) == []

        async def runs() -> bool:
            await place.client.execute_workflow(
                Sweep.run, id=f"sweep-{uuid4()}", task_queue=f"{place.prefix}workflows"
            )
            return (await (await _handle(place)).describe()).status is RUNNING

        async with limit(50):
            await until(runs)
        (await _metal(place, 1)).powered = False
        await place.turns(Phase.DEGRADED)


async def test_a_quiet_cluster_is_confirmed_and_not_written_to(opened: Opening) -> None:
    async with opened(rhythm=Rhythm(look_seconds=0.02, tour_seconds=0.1)) as place:
        await place.create()
        await place.monitor()
        uid = (await place.clusters.get("blue")).uid
        confirmed: list[datetime] = []
        while len(set(confirmed)) < 4:
            watched = await place.watches.watched(uid)
            assert watched is not None
            confirmed += [watched.confirmed] if watched.confirmed else []
            await asyncio.sleep(0.02)
        history = await (await _handle(place)).fetch_history()
        tours = sum(
            event.HasField("activity_task_completed_event_attributes") for event in history.events
        )
        assert tours >= 3
        assert (datetime.now(UTC) - max(confirmed)).total_seconds() < 5


@pytest.mark.timeout(240)
async def test_ten_thousand_looks_stay_far_below_what_a_history_may_hold(opened: Opening) -> None:
    """A tour is twenty looks, so that is five hundred tours; here a tour is one look."""
    tours = 10_000 * RHYTHM.look_seconds / RHYTHM.tour_seconds
    async with opened(rhythm=Rhythm(look_seconds=0.0, tour_seconds=0.0)) as place:
        await place.create()
        name = await place.monitor()
        runs: dict[str, int] = {}
        while sum(runs.values()) < tours / TOURS_PER_RUN:
            runs = {
                run.run_id: run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW
                async for run in place.client.list_workflows(f"WorkflowId = '{name}'")
            }
            await asyncio.sleep(0.2)
        sizes = []
        for run, over in runs.items():
            if over:
                handle = place.client.get_workflow_handle(name, run_id=run)
                sizes.append(len((await handle.fetch_history()).events))
        print(  # noqa: T201 (how far below, for whoever asks)
            f"{len(sizes)} runs of {TOURS_PER_RUN} tours: {min(sizes)} to {max(sizes)} events"
        )
        assert max(sizes) < SUGGESTED / 2
        await place.delete()
