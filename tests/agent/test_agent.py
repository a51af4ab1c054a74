"""What an agent does with its orders, seen from outside: over its sockets."""

import time
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from agent.gate import secret
from agent.ledger import Ledger
from agent.orders import State, Status
from agent.process import ended
from agent.runtime import Condition, Info
from agent.simulated import Simulated
from domain.errors import Conflict
from protos.gen.agent import instance_pb2 as agent_pb2
from protos.gen.agent import node_pb2 as pb
from protos.gen.kudo import scheduler_pb2 as kudo_pb2
from protos.gen.rkt import api_pb2 as rkt_pb2
from tests.agent.conftest import Begin
from tests.agent.control import PATIENCE_SECONDS, Control, Scheduler, copy
from tests.api.caller import refused
from tests.support.load import limit

LIMITS = agent_pb2.Resource(limit=agent_pb2.ResourceSummary(cpu=100, memory=64, disk=1))
S = agent_pb2.Status


async def words(statuses: AsyncIterable[agent_pb2.InstanceStatus]) -> list[str]:
    """The states of a stream up to its end, each once."""
    found: list[str] = []
    async for status in statuses:
        if not found or found[-1] != S.Name(status.status):
            found.append(S.Name(status.status))
    return found


async def heard(scheduler: Scheduler, number: int) -> list[rkt_pb2.Event]:
    """The first events of this node."""
    filter = rkt_pb2.EventFilter(since_time=int(time.time()) - 60)
    told = scheduler.public.ListenEvents(
        rkt_pb2.ListenEventsRequest(filter=filter), timeout=PATIENCE_SECONDS
    )
    events: list[rkt_pb2.Event] = []
    async for message in told:
        events += message.events
        if len(events) >= number:
            break
    told.cancel()
    return events


@pytest.mark.parametrize("kind", ["simulated", "process", "podman"])
async def test_r41_the_whole_life_of_a_pod(begin: Begin, control: Control, kind: str) -> None:
    """R-29 to R-36, K-08: what it was, how it ended and what it said are known after it is gone,
    here and, since it was reported, to the control plane."""
    agent, scheduler = await begin(kind, linger=0)
    await agent.registered.wait()
    told: dict[str, Any] = {"environment": ["CODE=1", "CODE=3", "AFTER=0.3"], "resource": LIMITS}
    statuses = [status async for status in scheduler.create("one", "exit", **told)]
    assert [S.Name(status.status) for status in statuses if status.status != agent_pb2.STARTING][
        -1
    ] == "CRASHED"
    assert statuses[-1].description == "exit 3"
    running = [status for status in statuses if status.status == agent_pb2.RUNNING]
    assert running[0].resource.limit.memory == 64

    events = await heard(scheduler, 7)
    assert [rkt_pb2.EventType.Name(event.type)[11:] for event in events] == [
        "IMAGE_IMPORTED",
        "POD_PREPARED",
        "POD_STARTED",
        "APP_STARTED",
        "APP_EXITED",
        "POD_EXITED",
        "POD_GARBAGE_COLLECTED",
    ]
    data = {each.Key: each.value for each in events[4].data}
    assert (data["exit_code"], data["node"], data["reason"]) == ("3", "n1", "exit 3")

    pod = await scheduler.pod(events[1].id)
    assert pod.state == rkt_pb2.POD_STATE_GARBAGE
    assert (pod.pid > 0, pod.cgroup, pod.apps[0].exit_code) == (True, "", 3)
    assert pod.created_at <= pod.started_at < pod.gc_marked_at
    assert b'"acKind": "PodManifest"' in pod.manifest
    assert {each.Key: each.value for each in pod.annotations} == {
        "windlass/instance": "one",
        "windlass/incarnation": "1",
        "windlass/node": "n1",
    }
    assert await scheduler.log(pod.id) == ["ending with 3"]
    listed = await scheduler.public.ListImages(rkt_pb2.ListImagesRequest(), timeout=20)
    assert [image.name for image in listed.images] == ["windlass.local/exit"]
    assert await scheduler.held() == []

    await control.until(lambda: control.items.keys() >= set(range(1, 8)))
    kinds = [item.WhichOneof("what") for item in control.items.values()]
    assert kinds.count("happening") == 7
    assert [
        item.log.lines.split(b" ", 3)[3]
        for item in control.items.values()
        if item.WhichOneof("what") == "log"
    ] == [b"ending with 3\n"]

    await agent.images.drop_unused(-1)
    removed = (await heard(scheduler, 8))[-1]
    assert (removed.type, removed.id) == (rkt_pb2.EVENT_TYPE_IMAGE_REMOVED, events[0].id)
    listed = await scheduler.public.ListImages(rkt_pb2.ListImagesRequest(), timeout=20)
    assert not listed.images


async def test_r34_r35_what_runs_has_a_cgroup_and_what_has_ended_has_none(begin: Begin) -> None:
    agent, scheduler = await begin("process")
    pod = await scheduler.running("one", "idle")
    seen = await scheduler.pod(pod)
    known = await agent.runtime.inspect(pod)  # what is told is what the runtime knows
    told = (seen.started_at, seen.pid, [each.name for each in seen.networks], seen.cgroup)
    assert told == (known.started_ns, known.pid, [known.network], known.cgroup)
    assert seen.created_at == known.created_ns > 0
    assert seen.pid > 0
    assert seen.cgroup.startswith("/")
    below = f"{seen.cgroup}/below" if seen.cgroup != "/" else "/"  # which is nobody's parent
    filter = rkt_pb2.PodFilter(pod_sub_cgroups=[below])
    listed = await scheduler.public.ListPods(rkt_pb2.ListPodsRequest(filters=[filter]), timeout=20)
    assert [each.id for each in listed.pods] == [pod]
    await scheduler.node.Stop(pb.StopRequest(copy=copy("one")), timeout=20)
    assert (await scheduler.pod(pod)).cgroup == ""


@pytest.mark.parametrize("kind", ["simulated", "process"])
async def test_when_a_pod_was_created_is_what_its_runtime_says(begin: Begin, kind: str) -> None:
    agent, scheduler = await begin(kind)
    pod = await scheduler.running("one", "idle")
    assert (
        (await scheduler.pod(pod)).created_at == (await agent.runtime.inspect(pod)).created_ns > 0
    )


async def test_what_ended_by_itself_stays_exited_for_its_time(begin: Begin) -> None:
    """The control plane has it removed as soon as it hears of the end. An order to destroy it is
    obeyed, and nobody holds it any more; its pod stays to be looked at."""
    _, scheduler = await begin(linger=3600)
    call = scheduler.create("one", "exit", environment=["CODE=3"])
    await scheduler.until(call, agent_pb2.CRASHED)
    (held,) = await scheduler.held()
    await scheduler.node.Destroy(copy("one"), timeout=20)
    assert await scheduler.held() == []
    pod = await scheduler.pod(held.pod)
    assert (pod.state, pod.apps[0].exit_code) == (rkt_pb2.POD_STATE_EXITED, 3)
    again = await scheduler.running("one", "idle", 2)
    assert again != held.pod
    assert (await scheduler.pod(held.pod)).state == rkt_pb2.POD_STATE_GARBAGE
    assert [one.pod for one in await scheduler.held()] == [again]


async def test_what_ended_by_itself_goes_once_its_time_is_over(begin: Begin) -> None:
    _, scheduler = await begin(linger=1)
    call = scheduler.create("one", "exit")
    await scheduler.until(call, agent_pb2.TERMINATED)
    await scheduler.node.Destroy(copy("one"), timeout=20)
    last = (await heard(scheduler, 7))[-1]
    assert last.type == rkt_pb2.EVENT_TYPE_POD_GARBAGE_COLLECTED
    assert (await scheduler.pod(last.id)).state == rkt_pb2.POD_STATE_GARBAGE


async def test_an_exit_code_that_nobody_knows_is_minus_one(begin: Begin) -> None:
    agent, scheduler = await begin()
    assert isinstance(agent.runtime, Simulated)
    pod = await scheduler.running("one", "idle")
    one = agent.runtime._pods[pod]
    one.seen = one.seen.model_copy(update={"condition": Condition.GONE})
    one.over.set()
    call = scheduler.create("one", "idle")
    await scheduler.until(call, agent_pb2.CRASHED)
    shown = await scheduler.pod(pod)
    assert (shown.state, shown.apps[0].exit_code) == (rkt_pb2.POD_STATE_EXITED, -1)


async def test_k19_stop_keeps_start_goes_on_and_destroy_ends(begin: Begin) -> None:
    """All on one stream; each call repeated is well."""
    _, scheduler = await begin()
    call = scheduler.create("one", "idle")
    await scheduler.until(call, agent_pb2.RUNNING)
    for _ in range(2):
        await scheduler.node.Stop(pb.StopRequest(copy=copy("one")), timeout=20)
    assert await scheduler.until(call, agent_pb2.STOPPING) == ""
    assert await scheduler.until(call, agent_pb2.STOPPING) == "stopped"
    (held,) = await scheduler.held()
    assert (held.state, held.exit_code) == ("STOPPED", 143)
    for _ in range(2):
        await scheduler.node.Start(copy("one"), timeout=20)
    await scheduler.until(call, agent_pb2.RUNNING)
    for _ in range(2):
        await scheduler.node.Destroy(copy("one"), timeout=20)
    assert await words(call) == ["DESTROYING", "TERMINATED"]
    assert await scheduler.held() == []
    await scheduler.node.Destroy(copy("never"), timeout=20)
    refusal = await refused(scheduler.node.Start(copy("one"), timeout=20))
    assert refusal.reason == "INSTANCE_ENDED"
    refusal = await refused(scheduler.node.Stop(pb.StopRequest(copy=copy("never")), timeout=20))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "INSTANCE_NOT_FOUND")


async def test_k24_older_incarnations_are_fenced_and_newer_ones_replace(begin: Begin) -> None:
    _, scheduler = await begin()
    first = scheduler.create("one", "idle", 1)
    await scheduler.until(first, agent_pb2.RUNNING)
    await scheduler.running("one", "idle", 2)
    assert (await words(first))[-1] == "TERMINATED"
    again = scheduler.create("one", "idle", 2)
    assert (await anext(aiter(again))).status == agent_pb2.RUNNING, "taken up again"
    again.cancel()

    async def late() -> None:
        await words(scheduler.create("one", "idle", 1))

    orders = (
        late(),
        scheduler.node.Stop(pb.StopRequest(copy=copy("one", 1)), timeout=20),
        scheduler.node.Destroy(copy("one", 1), timeout=20),
    )
    for order in orders:
        refusal = await refused(order)
        assert refusal.reason == "STALE_INCARNATION"
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION

    await scheduler.running("given-up", "idle", 1)
    await scheduler.node.Destroy(copy("given-up", 3), timeout=20)
    assert "given-up" not in {held.copy.instance for held in await scheduler.held()}


async def test_k24_what_was_destroyed_before_it_was_made_is_not_made_any_more(
    begin: Begin,
) -> None:
    """The order for it may lie in a socket until whoever gave it is dead."""
    _, scheduler = await begin()
    await scheduler.node.Destroy(copy("late", 3), timeout=20)

    async def ordered(incarnation: int) -> None:
        await words(scheduler.create("late", "idle", incarnation))

    for incarnation in (2, 3):
        refusal = await refused(ordered(incarnation))
        assert refusal.reason == "STALE_INCARNATION"
    assert await scheduler.held() == []
    await scheduler.running("late", "idle", 4)


async def test_what_runs_is_adopted_after_a_restart(begin: Begin) -> None:
    """One lives through it, one ends while nobody looks, one was stopped and stays so."""
    agent, scheduler = await begin("process")
    lives = await scheduler.running("lives", "ticker", environment=["SECONDS_BETWEEN=0.1"])
    await scheduler.running("ends", "exit", environment=["AFTER=0.5", "CODE=4"])
    await scheduler.running("rests", "idle")
    await scheduler.node.Stop(pb.StopRequest(copy=copy("rests")), timeout=20)
    before = {held.copy.instance: held for held in await scheduler.held()}
    await agent.stop()
    async with limit(PATIENCE_SECONDS):
        await ended(before["ends"].pid)

    _, after = await begin("process")
    held = {each.copy.instance: each for each in await after.held()}
    assert held["lives"].pid == before["lives"].pid
    assert (held["lives"].state, held["rests"].state) == ("RUNNING", "STOPPED")
    assert (await words(after.create("ends", "exit")))[-1] == "CRASHED"
    assert await after.first(lives, 3) == ["tick 1 ", "tick 2 ", "tick 3 "], "none twice"
    call = after.create("lives", "ticker")
    assert await after.until(call, agent_pb2.RUNNING) is not None
    await after.node.Destroy(copy("lives"), timeout=20)
    assert (await words(call))[-1] == "TERMINATED"


async def test_who_was_killed_before_it_said_that_something_runs_says_it_then(
    begin: Begin, tmp_path: Path
) -> None:
    agent, scheduler = await begin("process")
    pod = await scheduler.running("one", "idle")
    await agent.stop()
    ledger = Ledger(tmp_path / "state" / "agent.db")
    (record,) = ledger.records()
    ledger.keep(record.model_copy(update={"status": Status(state=State.STARTING)}))
    ledger.close()

    _, after = await begin("process")
    assert await after.running("one", "idle") == pod


async def test_a_node_registers_beats_and_comes_back(begin: Begin, control: Control) -> None:
    """It tries again when it is refused, and when the control plane hangs up."""
    await begin()
    await control.until(lambda: len(control.beats) >= 1)
    card = control.cards[-1]
    assert card["certificate"] == "n1"
    assert (card["windlass-pool"], card["windlass-labels"]) == ("edge", "zone=a")
    assert card["windlass-runtime"] == "simulated"
    assert card["windlass-agent-address"].startswith("127.0.0.1:")
    beat = control.beats[0]
    assert (beat.id, beat.status, beat.resource.limit.cpu) == ("n1", kudo_pb2.RUNNING, 2000)
    cards, beats = len(control.cards), len(control.beats)
    control.hang_up.set()
    await control.until(lambda: len(control.cards) > cards and len(control.beats) > beats + 1)


async def test_a_node_that_cannot_be_one_yet_goes_on_trying(
    begin: Begin, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that containers are still in cannot be made anew for another block."""
    asked: list[str] = []
    opened = Simulated.open

    async def refusing(runtime: Simulated, subnet: str) -> Info:
        asked.append(subnet)
        if asked[1:] == [control.subnet]:
            raise Conflict("the network is being used")
        return await opened(runtime, subnet)

    monkeypatch.setattr(Simulated, "open", refusing)
    await begin()
    await control.until(lambda: bool(control.beats))
    assert asked == ["", control.subnet, control.subnet]


async def test_who_drains_stops_what_runs_and_says_so_last(begin: Begin, control: Control) -> None:
    agent, scheduler = await begin()
    call = scheduler.create("one", "idle")
    await scheduler.until(call, agent_pb2.RUNNING)
    await control.until(lambda: bool(control.beats))
    await agent.drain()
    assert await scheduler.until(call, agent_pb2.STOPPING) == ""
    assert await scheduler.until(call, agent_pb2.STOPPING) == "stopped"
    await control.until(lambda: control.beats[-1].status == kudo_pb2.TERMINATED)
    assert kudo_pb2.STOPPING in {beat.status for beat in control.beats}

    async def late() -> None:
        await words(scheduler.create("two", "idle"))

    assert (await refused(late())).reason == "NODE_DRAINING"


async def test_a_scheduler_of_the_first_kind_is_served_as_it_knows(begin: Begin) -> None:
    """It knows no incarnations; every end is TERMINATED, and a stop removes. An id may be used
    again after its end. K-06."""
    _, scheduler = await begin()
    ended = await words(scheduler.create("one", "exit", None, environment=["CODE=3"]))
    assert ended[-1] == "TERMINATED"
    call = scheduler.create("one", "idle", None)
    await scheduler.until(call, agent_pb2.RUNNING)
    stop = agent_pb2.SignalInstruction(instance=agent_pb2.Instance(id="one"))
    await scheduler.instances.signal(stop, timeout=20)
    assert (await words(call))[-1] == "TERMINATED"
    assert await scheduler.held() == []
    unknown = agent_pb2.SignalInstruction(instance=agent_pb2.Instance(id="x"))
    assert (await refused(scheduler.instances.signal(unknown, timeout=20))).code is (
        grpc.StatusCode.NOT_FOUND
    )
    nobody = agent_pb2.SignalInstruction()
    assert (await refused(scheduler.instances.signal(nobody, timeout=20))).code is (
        grpc.StatusCode.INVALID_ARGUMENT
    )


async def test_who_does_not_work_is_ended_however_it_runs(begin: Begin) -> None:
    _, scheduler = await begin()
    health = (
        '{"command": ["sh", "-c", "exit 7"], "interval_seconds": 0.01, '
        '"retries": 2, "start_seconds": 0}'
    )
    call = scheduler.create("one", "idle", metadata={"windlass-health": health})
    said = await scheduler.until(call, agent_pb2.FAILED)
    assert said == "unhealthy: sh ended with 7"


async def test_what_cannot_be_started_fails_with_the_reason(begin: Begin) -> None:
    _, scheduler = await begin()
    call = scheduler.create("one", "nothing-of-the-kind")
    assert "Error while starting workload" in await scheduler.until(call, agent_pb2.FAILED)
    (held,) = await scheduler.held()
    pod = await scheduler.pod(held.pod)
    assert (pod.state, pod.pid, len(pod.apps)) == (rkt_pb2.POD_STATE_ABORTED_PREPARE, -1, 0)

    async def wrong(**more: Any) -> None:
        await words(scheduler.create("two", "idle", **more))

    refusals: tuple[dict[str, Any], ...] = (
        {"environment": ["=x"]},
        {"environment": ["x"]},
        {"metadata": {"windlass-incarnation": "x"}},
        {"metadata": {"windlass-health": "{"}},
        {"metadata": {"windlass-health": '{"tcp": "x"}'}},
    )
    for more in refusals:
        assert (await refused(wrong(**more))).code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_command_is_run_beside_an_instance(begin: Begin) -> None:
    _, scheduler = await begin("process")
    await scheduler.running("one", "idle", environment=["GREETING=hi"])
    asked = pb.ExecRequest(instance="one", command=["sh", "-c", "echo $GREETING; exit 6"])
    (output,) = [each async for each in scheduler.node.Exec(asked, timeout=20)]
    assert (output.stdout, output.exit_code, output.ended) == (b"hi\n", 6, True)


async def test_whoever_does_not_carry_the_secret_learns_nothing_but_its_health(
    begin: Begin, control: Control
) -> None:
    agent, scheduler = await begin()
    pod = await scheduler.running("one", "idle")
    await control.until(lambda: control.cards)
    told = control.cards[0]["windlass-agent-secret"]
    assert told == secret(agent.ledger)
    address = control.cards[0]["windlass-agent-address"]
    for wrong in ("", "guessed", told[:-1]):
        stranger = Scheduler(address, wrong)
        try:
            health = await HealthStub(stranger.channel).Check(  # type: ignore[attr-defined]
                HealthCheckRequest(), timeout=20
            )
            assert health.status == HealthCheckResponse.SERVING
            for call in (
                stranger.node.Exec(pb.ExecRequest(instance="one", command=["true"]), timeout=20),
                stranger.create("two", "idle"),
                stranger.public.ListenEvents(rkt_pb2.ListenEventsRequest(), timeout=20),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as no:
                    await call.read()
                assert no.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert told not in str(no.value)
            with pytest.raises(grpc.aio.AioRpcError) as no:
                await stranger.pod(pod)
            assert no.value.code() is grpc.StatusCode.UNAUTHENTICATED
        finally:
            await stranger.close()
    assert [held.copy.instance for held in await scheduler.held()] == ["one"]


async def test_an_agent_for_an_original_scheduler_takes_calls_without_a_secret(
    begin: Begin, control: Control
) -> None:
    await begin(serves_anybody=True)
    await control.until(lambda: control.cards)
    assert "windlass-agent-secret" not in control.cards[0]
    stranger = Scheduler(control.cards[0]["windlass-agent-address"])
    try:
        assert await stranger.running("one", "idle")
    finally:
        await stranger.close()
