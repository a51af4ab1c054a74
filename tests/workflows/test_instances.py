"""Instances on nodes, over real sockets: what callers of the scheduler rely on (K)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from sqlalchemy import update
from temporalio.api.enums.v1 import EventType
from temporalio.testing import WorkflowEnvironment

from activities import instances as hands
from domain.instance import Call
from protos.gen.agent import instance_pb2 as agent
from protos.gen.kudo import scheduler_pb2 as pb
from store import placing as books
from store.engine import Database
from store.node_rows import InstanceRow
from store.rows import now
from tests.agents import Copy
from tests.store.desk import until
from tests.store.dock import ask, wanted
from tests.workflows.harbour import Harbour, asked, harbour, worker

LIFE = [
    *("SCHEDULING", "SCHEDULED", "STARTING", "RUNNING", "STOPPING", "STOPPED"),
    *("STARTING", "RUNNING", "DESTROYING", "TERMINATED"),
]
RUNS = LIFE[:4]

Opening = Callable[..., AbstractAsyncContextManager[Harbour]]


@pytest.fixture
def opened(
    temporal: WorkflowEnvironment,
    database: Database,
    database_url: str,
    queues: str,
    tmp_path: Path,
) -> Opening:
    @asynccontextmanager
    async def opened(*, cached: bool = True, **said: Any) -> AsyncIterator[Harbour]:
        async with (
            harbour(temporal.client, database, database_url, queues, tmp_path, **said) as place,
            worker(temporal.client, database, queues, tmp_path, cached=cached),
        ):
            yield place

    return opened


@pytest.fixture
async def place(opened: Opening) -> AsyncIterator[Harbour]:
    async with opened() as place:
        yield place


async def code(call: Awaitable[Any]) -> grpc.StatusCode:
    """How a call ends that must not succeed."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code()


async def test_k13_k18_k19_a_life_from_create_to_destroy(place: Harbour) -> None:
    host = await place.host("a")
    listener = place.create(asked(environnement=["A=b=c"]))
    await listener.until(*RUNS)
    scheduling, scheduled, _, running = listener.heard[:4]
    assert scheduling.statusDescription == ""
    assert "a" in scheduled.statusDescription
    assert {status.id for status in listener.heard} == {"web-1"}
    assert running.resource.limit.cpu == 10
    assert running.resource.usage.cpu == 1
    assert not scheduled.HasField("resource")
    assert host.agent.copies["web-1"].order.environment == ["A=b=c"]
    host.agent.copies["web-1"].say(agent.RUNNING, cpu=7)
    await until(lambda: listener.heard[-1].resource.usage.cpu == 7)
    second = place.create(asked("web-2"))
    await second.until(*RUNS)
    second.hang_up()
    for _ in range(2):
        await place.ask(Call.STOP)
    await listener.until(*LIFE[:6])
    assert host.running == ["web-2"]
    for _ in range(2):
        await place.ask(Call.START)
    await listener.until(*LIFE[:8])
    for _ in range(2):
        await place.ask(Call.DESTROY)
    assert await listener.end() == LIFE
    assert host.running == ["web-2"]  # hanging up has changed nothing
    await place.ask(Call.DESTROY, "web-2")
    await until(lambda: not host.agent.copies)


async def test_k14_k15_k16_k20_what_is_refused_and_what_is_told(place: Harbour) -> None:
    nowhere = place.create(asked())
    assert await nowhere.end() == ["SCHEDULING", "FAILED"]  # and the call has ended well
    assert nowhere.heard[-1].statusDescription == "no available nodes"
    host = await place.host("a")
    limitless = pb.Instance(id="web-1", uri="builtin:idle")
    first = place.stub.Create(limitless).read()
    assert await code(first) is grpc.StatusCode.INVALID_ARGUMENT
    for call in Call:
        unknown = place.ask(call, "nobody")
        assert await code(unknown) is grpc.StatusCode.NOT_FOUND
    listener = place.create(asked())  # the id is free again
    await listener.until(*RUNS)
    assert await code(place.stub.Create(asked()).read()) is grpc.StatusCode.ALREADY_EXISTS
    await place.ask(Call.DESTROY)
    await listener.end()
    assert await code(place.ask(Call.START)) is grpc.StatusCode.FAILED_PRECONDITION
    again = place.create(asked())
    await again.until(*RUNS)
    assert [id for id, _ in host.agent.made] == ["web-1", "web-1"]
    full = place.create(asked("big", cpu=96))
    assert await full.end() == ["SCHEDULING", "FAILED"]
    assert "lacks" in full.heard[-1].statusDescription


async def test_k17_what_an_agent_says_arrives_under_the_same_name(place: Harbour) -> None:
    host = await place.host("a")
    host.agent.quiet = True
    listener = place.create(asked())
    await until(lambda: "web-1" in host.agent.copies)
    copy = host.agent.copies["web-1"]
    for status in (
        *(agent.SCHEDULING, agent.SCHEDULED, agent.STARTING),
        *(agent.RUNNING, agent.STOPPING, agent.DESTROYING, agent.TERMINATED),
    ):
        copy.say(status)
    assert await listener.end() == [*RUNS, "STOPPING", "DESTROYING", "TERMINATED"]
    other = place.create(asked("web-2"))
    await until(lambda: "web-2" in host.agent.copies)
    host.agent.copies["web-2"].say(agent.CRASHED, "exit 3")
    assert await other.end() == ["SCHEDULING", "SCHEDULED", "FAILED"]
    assert other.heard[-1].statusDescription == "crashed: exit 3"
    await until(lambda: not host.agent.copies)  # what has ended is removed


async def test_k21_k22_nodes_come_and_go(place: Harbour) -> None:
    host, other = await place.host("a"), await place.host("b")
    again = await host.register()
    assert (again.code, again.subnet) == (0, "10.64.0.0/24")
    assert (await other.register()).subnet == "10.64.1.0/24"
    await place.takes_work("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    stub = host.stub
    gone = await stub.Unregister(pb.NodeUnregisterRequest(id="a"), timeout=20)
    assert (gone.code, gone.description) == (0, "Bye from the cluster")
    assert await listener.end() == [*RUNS, "TERMINATED"]
    assert listener.heard[-1].statusDescription == "Node is terminated: a is gone"
    unknown = await stub.Unregister(pb.NodeUnregisterRequest(id="a"), timeout=20)
    assert unknown.code == 1
    unheard = pb.NodeRegisterRequest(certificate="c")
    beside = (("windlass-agent-address", "127.0.0.1:1"),)
    unreachable = await stub.Register(unheard, metadata=beside, timeout=20)
    assert (unreachable.code, unreachable.description) == (1, "no agent answers at 127.0.0.1:1")
    assert (await stub.Register(pb.NodeRegisterRequest(), timeout=20)).code == 2


async def test_a_status_stream_is_of_one_node_that_is_known(place: Harbour) -> None:
    host = await place.host("a")
    said = pb.NodeStatus(id="a", status=pb.RUNNING)
    known = pb.Resource(limit=host.limit)

    async def ended(*statuses: pb.NodeStatus) -> grpc.StatusCode:
        return await code(host.stub.Status(iter(statuses), timeout=20))

    assert await ended(said) is grpc.StatusCode.INVALID_ARGUMENT  # RUNNING is 0: no sign of health
    unknown = pb.NodeStatus(id="x", status=pb.RUNNING, resource=known)
    assert await ended(unknown) is grpc.StatusCode.NOT_FOUND
    told = pb.NodeStatus(id="a", status=pb.RUNNING, resource=known)
    assert await ended(told, unknown) is grpc.StatusCode.INVALID_ARGUMENT
    await host.stub.Status(iter([told, told]), timeout=20)  # half-closed: its lease goes on
    await place.takes_work("a")


async def test_k23_k24_a_lost_node_is_replaced_and_one_copy_survives_its_return(
    opened: Opening,
) -> None:
    async with opened(restart="always") as place:
        lost, spare = await place.host("a"), await place.host("b", cpu=90)
        listener = place.create(asked())
        await listener.until(*RUNS)
        assert lost.running == ["web-1"]
        await place.lose(lost, killing=False)
        await listener.until(*RUNS, *RUNS)
        assert (spare.running, lost.running) == (["web-1"], ["web-1"])
        await lost.up()  # and the copy that it still has is removed
        await until(lambda: not lost.agent.copies)
        assert spare.running == ["web-1"]
        assert [incarnation for _, incarnation in spare.agent.made] == [2]
        await place.ask(Call.DESTROY)
        assert await listener.end() == [*RUNS, *RUNS, "DESTROYING", "TERMINATED"]
        assert not spare.agent.copies


async def test_k23_without_a_policy_a_lost_node_is_the_end(place: Harbour) -> None:
    lost = await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    await place.lose(lost)
    assert await listener.end() == [*RUNS, "TERMINATED"]
    assert listener.heard[-1].statusDescription == "Node is terminated: a is lost"


async def test_k25_k26_whoever_refuses_or_hangs_is_left_for_the_next_best(place: Harbour) -> None:
    refusing, hanging = await place.host("a"), await place.host("b", cpu=95)
    refusing.agent.refuses = hanging.agent.hangs = True
    stuck = place.create(asked("stuck"))
    await hanging.agent.hung.wait()
    working = await place.host("c", cpu=50)
    quick = place.create(asked("quick", cpu=1))
    await until(lambda: working.running == ["quick"])
    hanging.agent.give_up()
    await stuck.until(*RUNS[:2], *RUNS[:2], *RUNS)
    assert working.running == ["quick", "stuck"]
    assert "a refused it" in stuck.heard[2].statusDescription
    assert quick.heard


async def test_k25_k26_one_that_is_deaf_keeps_nobody_waiting(
    temporal: WorkflowEnvironment,
    database: Database,
    database_url: str,
    queues: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says that it lives, and answers no call. What it may have is asked for again and again,
    beside what is said of the copy that took its place."""
    monkeypatch.setattr(hands, "CLEAN_SECONDS", 0.2)
    monkeypatch.setattr(books, "RETRIES", timedelta(seconds=0.2))
    async with (
        harbour(temporal.client, database, database_url, queues, tmp_path) as place,
        worker(temporal.client, database, queues, tmp_path, answer_seconds=0.2),
    ):
        deaf, spare = await place.host("a"), await place.host("b", cpu=90)
        deaf.agent.deaf = True
        listener = place.create(asked())
        await listener.until(*RUNS[:2], *RUNS)
        before = deaf.agent.asked["Destroy"]
        await until(lambda: deaf.agent.asked["Destroy"] > before + 3)
        assert spare.agent.asked["create"] == 1, "it was listened to all the time"
        spare.agent.copies["web-1"].say(agent.CRASHED, "exit 3")
        assert (await listener.end())[-1] == "FAILED"


async def test_what_a_node_stopped_and_did_not_say_so_is_started_again(place: Harbour) -> None:
    """Its agent was told to go away while nobody heard it, and is back within its lease."""
    host = await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    for says in ("", "stopped"):
        host.agent.copies["web-1"].say(agent.STOPPING, says)
    await listener.until(*RUNS, "STOPPING", "STOPPING", "RUNNING")
    assert host.agent.made == [("web-1", 1)], "the same copy"
    assert host.running == ["web-1"]


async def test_k24_a_copy_that_no_row_knows_of_is_removed_when_its_node_is_back(
    place: Harbour,
) -> None:
    host = await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    host.agent.copies["stray"] = Copy(agent.Instance(id="stray"), 3, {})
    foreign = host.agent.copies["foreign"] = Copy(agent.Instance(id="foreign"), 0, {})
    await host.down(killing=False)
    await host.up()
    await until(lambda: "stray" not in host.agent.copies)
    assert host.running == ["web-1"], "what is known stays"
    assert host.agent.copies["foreign"] is foreign, "who ordered it knows no incarnations"


async def test_a_newer_copy_than_a_restored_row_knows_of_is_its_own(place: Harbour) -> None:
    host = await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    await host.down(killing=False)
    newer = host.agent.copies["web-1"] = Copy(agent.Instance(id="web-1"), 3, {})
    await host.up()
    await until(lambda: newer.runs)  # it says so once it is listened to
    assert host.agent.copies["web-1"] is newer
    assert host.agent.asked["Destroy"] == 0


async def test_k27_a_host_port_is_mapped_and_taken_only_once_per_node(place: Harbour) -> None:
    hosts = [await place.host("a"), await place.host("b")]
    port = [pb.Port(source=18080, destination=80)]
    for number in (1, 2):
        listener = place.create(asked(f"web-{number}", ports=port))
        await listener.until(*RUNS)
    assert [host.running for host in hosts] == [["web-1"], ["web-2"]]
    for host in hosts:
        [copy] = host.agent.copies.values()
        assert [(each.source, each.destination) for each in copy.order.ports] == [(18080, 80)]
    third = place.create(asked("web-3", ports=port))
    assert await third.end() == ["SCHEDULING", "FAILED"]


async def test_k28_whatever_dies_in_mid_create_there_is_one_copy(
    temporal: WorkflowEnvironment,
    database: Database,
    database_url: str,
    queues: str,
    tmp_path: Path,
) -> None:
    async with harbour(temporal.client, database, database_url, queues, tmp_path) as place:
        host = await place.host("a")
        host.agent.quiet = True
        async with worker(temporal.client, database, queues, tmp_path):
            listener = place.create(asked())
            await until(lambda: "web-1" in host.agent.copies)
        listener.hang_up()
        await host.down(killing=False)
        await place.shut()  # API and worker are gone
        host.agent.copies["web-1"].say(agent.STARTING)
        await host.listen()
        await place.open()
        async with worker(temporal.client, database, queues, tmp_path, cached=False):
            host.agent.copies["web-1"].say(agent.RUNNING)
            view = await place.settled("web-1", "running")
        assert host.agent.made == [("web-1", 1)]
        assert view.incarnation == 1


async def test_who_ends_badly_is_run_again_after_a_pause(opened: Opening) -> None:
    async with opened(restart="on-failure", cached=False) as place:
        host = await place.host("a")
        listener = place.create(asked())
        await listener.until(*RUNS)
        host.agent.copies["web-1"].say(agent.CRASHED, "exit 3")
        await listener.until(*RUNS, *RUNS[2:])
        says = listener.heard[-2].statusDescription
        assert says == "crashed: exit 3; run again in 1 s (restart 1)"
        assert host.agent.made == [("web-1", 1), ("web-1", 2)]
        host.agent.copies["web-1"].say(agent.TERMINATED, "exit 0")
        assert await listener.end() == [*RUNS, *RUNS[2:], "TERMINATED"]


async def test_an_original_agent_that_keeps_nothing_is_spoken_to_as_it_knows(
    place: Harbour,
) -> None:
    host = await place.host("a", original=True)
    listener = place.create(asked())
    await listener.until(*RUNS)
    await place.ask(Call.STOP)
    await listener.until(*LIFE[:6])
    assert not host.agent.copies
    await place.ask(Call.START)
    await listener.until(*LIFE[:8])
    await place.ask(Call.DESTROY)
    assert await listener.end() == LIFE
    assert not host.agent.copies


async def test_a_node_that_is_drained_is_empty_in_the_end(opened: Opening) -> None:
    async with opened(restart="always") as place:
        full, spare = await place.host("a"), await place.host("b", cpu=50)
        listeners = [place.create(asked(f"web-{number}", cpu=1)) for number in range(3)]
        for listener in listeners:
            await listener.until(*RUNS)
        assert len(full.running) >= 2
        await place.drain("a", seconds=3600)
        await place.rouse()
        await until(lambda: spare.running == ["web-0", "web-1", "web-2"])
        await until(lambda: not full.agent.copies)
        await place.drained("a")


async def test_at_the_end_of_its_time_a_drained_node_ends_what_may_run_nowhere_else(
    place: Harbour,
) -> None:
    await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    await place.drain("a", seconds=0)
    await place.rouse()
    assert await listener.end() == [*RUNS, "DESTROYING", "TERMINATED"]
    await place.drained("a")


async def test_all_that_are_neglected_are_roused_side_by_side(
    place: Harbour, temporal: WorkflowEnvironment, queues: str
) -> None:
    """One after the other, the last of a thousand would be a minute behind."""
    for number in range(3):
        await place.api.scheduling.instances.request_create(wanted(f"web-{number}"), ask())
    async with place.database.session(writes=True) as session:
        await session.execute(update(InstanceRow).values(heard=now() - timedelta(minutes=1)))
    await place.rouse()
    rouse = temporal.client.get_workflow_handle(f"{queues}workflows-rouse")
    begun = [
        event.start_child_workflow_execution_initiated_event_attributes
        for event in (await rouse.fetch_history()).events
        if event.event_type == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    ]
    assert len(begun) == 3
    assert len({each.workflow_task_completed_event_id for each in begun}) == 1
