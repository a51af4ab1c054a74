"""An agent and real containers: what is ordered of one is so, seen from outside."""

import socket

from protos.gen.agent import instance_pb2 as agent_pb2
from tests.agent.conftest import Begin
from tests.agent.containers import fetched, limits
from tests.agent.control import Scheduler
from tests.agent.test_agent import heard
from tests.store.desk import until


def may_take(cpu: int, memory: int) -> agent_pb2.Resource:
    return agent_pb2.Resource(limit=agent_pb2.ResourceSummary(cpu=cpu, memory=memory, disk=1))


async def event(scheduler: Scheduler, number: int) -> dict[str, str]:
    """What is told with one of the events of this node."""
    told = (await heard(scheduler, number + 1))[number]
    return {each.Key: each.value for each in told.data}


async def test_k27_an_instance_is_reached_on_its_port_and_limited(begin: Begin) -> None:
    agent, scheduler = await begin("podman")
    await agent.registered.wait()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pod = await scheduler.running(
        "web",
        "web",
        environment=["GREETING=b=c"],
        resource=may_take(cpu=250, memory=64),
        ports=[agent_pb2.Port(source=port, destination=80)],
    )

    async def answers() -> bool:
        return b"b=c" in await fetched("127.0.0.1", port)

    await until(answers)
    (held,) = await scheduler.held()
    assert [(each.source, each.destination) for each in held.ports] == [(port, 80)]
    assert limits((await scheduler.pod(pod)).cgroup) == (64 * 10**6, 250)


async def test_an_over_eater_ends_as_failed_and_its_event_says_why(begin: Begin) -> None:
    agent, scheduler = await begin("podman", linger=0)
    await agent.registered.wait()
    call = scheduler.create("eater", "eater", resource=may_take(cpu=0, memory=24))
    said = await scheduler.until(call, agent_pb2.FAILED)
    assert said == "OOM: it took more than 24 MB"
    told = await event(scheduler, 4)
    assert (told["exit_code"], told["oom"], told["reason"]) == ("137", "true", said)
