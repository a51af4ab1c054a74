"""The platform that runs apps as instances, against a scheduler that says what the test wants."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
import grpc.aio
import pytest
from google.protobuf.empty_pb2 import Empty

from agent.crm import names
from agent.crm.commands import SECONDS
from agent.crm.crm import cloudlet_key
from agent.crm.nodes import Nodes
from agent.crm.platform import AppOrder, Output, Standing
from agent.crm.simulated import RESOURCES
from domain.errors import Failed
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.dme.appcommon_pb2 import AppPort
from protos.gen.edge.flavor_pb2 import Flavor
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import (
    InstanceServiceServicer,
    add_InstanceServiceServicer_to_server,
)
from protos.gen.ops.instances_pb2 import (
    ExecInstanceOutput,
    ExecInstanceRequest,
    InstanceEvent,
    InstanceView,
    ListInstancesResponse,
)
from protos.gen.ops.instances_pb2_grpc import InstancesServicer, add_InstancesServicer_to_server

PLACE = cloudlet_key("tele/west")
EAST = cloudlet_key("tele/east")
KEY = AppKey(name="Web App", version="1")
ORDER = AppOrder(
    instance=AppInst(
        key=AppInstKey(app_key=KEY, cluster_inst_key=ClusterInstKey(cloudlet_key=PLACE)),
        mapped_ports=[AppPort(internal_port=80, public_port=18080)],
    ),
    app=App(key=KEY, deployment="docker", image_path="registry.example/web:1"),
    flavor=Flavor(vcpus=2, ram=512, disk=1),
    cluster=None,
)


class Scheduler(InstanceServiceServicer):
    def __init__(self) -> None:
        self.created: list[pb.Instance] = []
        self.beside: list[dict[str, str]] = []
        self.destroyed: list[str] = []
        self.says: list[Any] = [grpc.StatusCode.UNAVAILABLE]

    async def Create(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.created.append(request)
        self.beside.append(dict(context.invocation_metadata()))
        for each in list(self.says):
            if isinstance(each, grpc.StatusCode):
                self.says.remove(each)
                await context.abort(each, "as the test says")
            yield pb.InstanceStatus(id=request.id, status=each, statusDescription="so it is")

    async def Destroy(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.destroyed.append(request.id)
        if len(self.destroyed) > 1:
            await context.abort(grpc.StatusCode.NOT_FOUND, "never seen")
        return Empty()


class Listed(InstancesServicer):
    """Tells one instance a page, and of commands what the test wants."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.owner = names.owner(ORDER.instance)
        """Of what is asked for by an id that is not listed."""
        self.ran: list[ExecInstanceRequest] = []
        self.comes_to: list[ExecInstanceOutput | grpc.StatusCode] = []
        self.watched: list[str] = []
        self.stands = "TERMINATED"
        self.restarts = 0
        self.becomes = ["TERMINATED"] * 2
        """What is told of it after that, of which the last is its end if it is over then."""

    async def Watch(self, request: Any, _context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.watched.append(request.id)
        for number, status in enumerate(self.becomes, start=1):
            self.stands = status
            yield InstanceEvent(number=number, status=status, says="so it is")

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not self.stands:
            await context.abort(grpc.StatusCode.NOT_FOUND, "never seen")
        owner = self.owners.get(request.id, self.owner)
        status, restarts = self.stands, self.restarts
        return InstanceView(
            id=request.id, status=status, says="so it is", owner=owner, restarts=restarts
        )

    async def Exec(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.ran.append(request)
        for each in self.comes_to:
            if isinstance(each, grpc.StatusCode):
                await context.abort(each, "as the test says")
            yield each

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not self.owners:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        left = sorted(each for each in self.owners if each > request.after)
        return ListInstancesResponse(
            instances=[InstanceView(id=each, owner=self.owners[each]) for each in left[:1]],
            more=len(left) > 1,
        )


Listing: TypeAlias = tuple[Listed, Scheduler, Nodes]


@pytest.fixture
async def listing() -> AsyncIterator[Listing]:
    listed, scheduler, server = Listed(), Scheduler(), grpc.aio.server()  # type: ignore[abstract]
    add_InstancesServicer_to_server(listed, server)
    add_InstanceServiceServicer_to_server(scheduler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    nodes = Nodes(PLACE, f"127.0.0.1:{port}", "tele-west", RESOURCES, again_seconds=0.01)
    yield listed, scheduler, nodes
    await nodes.close()
    await server.stop(None)


async def test_an_app_is_an_instance_of_its_flavor(listing: Listing) -> None:
    """It is asked for again while there is no answer, and not waited for longer than it takes."""
    _, scheduler, nodes = listing
    scheduler.says += [pb.SCHEDULING, pb.SCHEDULED, pb.STARTING, pb.RUNNING]
    assert await nodes.create_app(ORDER) == [nodes.name(ORDER.instance)]
    assert len(scheduler.created) == 2
    asked = scheduler.created[-1]
    assert asked.id.startswith("webapp-")
    assert asked.uri == "docker://registry.example/web:1"
    assert (asked.resource.limit.cpu, asked.resource.limit.memory) == (2000, 512)
    assert [(port.source, port.destination) for port in asked.ports] == [(18080, 80)]
    assert scheduler.beside[-1]["windlass-pool"] == "tele-west"
    assert scheduler.beside[-1]["windlass-restart"] == "always"
    scheduler.says = [pb.RUNNING]
    own = App(key=KEY, deployment="docker", command="sh -c 'sleep 1'")
    await nodes.create_app(ORDER._replace(app=own))
    assert scheduler.beside[-1]["windlass-command"] == '["sh", "-c", "sleep 1"]'

    await nodes.delete_app(ORDER)
    await nodes.delete_app(ORDER)
    assert scheduler.destroyed == [asked.id] * 2


async def test_what_cannot_run_says_why(listing: Listing) -> None:
    _, scheduler, nodes = listing
    scheduler.says = [pb.SCHEDULING, pb.FAILED]
    with pytest.raises(Failed, match="so it is"):
        await nodes.create_app(ORDER)
    scheduler.says = [grpc.StatusCode.INVALID_ARGUMENT]
    with pytest.raises(Failed, match="as the test says"):
        await nodes.create_app(ORDER)
    scheduler.says = []
    with pytest.raises(Failed, match="not heard of"):
        await nodes.create_app(ORDER)
    helm = App(key=KEY, deployment="helm")
    with pytest.raises(Failed, match="no helm"):
        await nodes.create_app(ORDER._replace(app=helm))


@pytest.mark.parametrize(
    ("stands", "becomes", "comes_to"),
    [
        ("RUNNING", [], "runs"),
        ("SCHEDULING", ["SCHEDULED", "STARTING", "RUNNING"], "runs"),
        ("SCHEDULING", ["SCHEDULED", "FAILED"], "FAILED: so it is"),
        ("SCHEDULED", ["TERMINATED"], "TERMINATED"),
        ("FAILED", [], "FAILED: so it is"),
        ("STOPPED", [], "STOPPED"),
        ("STARTING", [], "not heard of"),
    ],
)
async def test_what_was_asked_for_before_has_to_run_too(
    listing: Listing, stands: str, becomes: list[str], comes_to: str
) -> None:
    """The answer to who asked first was lost, or its resource manager has been started anew."""
    listed, scheduler, nodes = listing
    scheduler.says = [grpc.StatusCode.ALREADY_EXISTS]
    listed.stands, listed.becomes = stands, becomes
    if comes_to == "runs":
        assert await nodes.create_app(ORDER) == [nodes.name(ORDER.instance)]
        assert listed.stands == "RUNNING"
    else:
        with pytest.raises(Failed, match=comes_to):
            await nodes.create_app(ORDER)
    assert len(scheduler.created) == 1


async def test_what_is_still_being_destroyed_makes_room_first(listing: Listing) -> None:
    listed, scheduler, nodes = listing
    scheduler.says = [grpc.StatusCode.ALREADY_EXISTS, pb.RUNNING]
    listed.stands = "DESTROYING"
    assert await nodes.create_app(ORDER) == [nodes.name(ORDER.instance)]
    assert (listed.stands, len(scheduler.created)) == ("TERMINATED", 2)


async def test_a_cluster_is_but_a_name(listing: Listing) -> None:
    _, _, nodes = listing
    cluster = ClusterInst(deployment="docker")
    cluster.key.cloudlet_key.CopyFrom(PLACE)
    await nodes.create_cluster(cluster)
    await nodes.update_cluster(cluster)
    await nodes.delete_cluster(cluster)
    assert await nodes.resources() == RESOURCES
    with pytest.raises(Failed, match="no kubernetes"):
        await nodes.create_cluster(ClusterInst(deployment="kubernetes"))


async def test_a_command_is_run_beside_the_instance(listing: Listing) -> None:
    listed, _, nodes = listing
    listed.comes_to = [
        ExecInstanceOutput(stdout=b"caf\xc3"),
        ExecInstanceOutput(stdout=b"\xa9\xff", stderr=b"oh", ended=True, exit_code=3),
    ]
    name = nodes.name(ORDER.instance)
    for container in ("", name):
        output = await nodes.run(ORDER, container, "sh -c 'exit 3'")
        assert output == Output(3, "caf\u00e9\ufffd", "oh")
        asked = listed.ran.pop()
        assert (asked.id, list(asked.command)) == (name, ["sh", "-c", "exit 3"])
        assert 0 < asked.timeout_seconds < SECONDS
    for container, command, why in (
        ("other", "ls", "no container other"),
        ("", "echo 'a", "cannot be read"),
        ("", " ", "no command"),
    ):
        with pytest.raises(Failed, match=why) as caught:
            await nodes.run(ORDER, container, command)
        assert caught.value.do
    assert listed.ran == []


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND])
async def test_a_command_that_was_not_run_is_not_repeated(listing: Listing, code: Any) -> None:
    listed, _, nodes = listing
    listed.comes_to = [code]
    with pytest.raises(Failed, match="as the test says") as caught:
        await nodes.run(ORDER, "", "ls")
    assert caught.value.do
    assert len(listed.ran) == 1


async def test_what_it_carries_is_what_was_made_for_its_cloudlet(listing: Listing) -> None:
    listed, scheduler, nodes = listing
    with pytest.raises(Failed, match="later"):
        await nodes.carries()
    ours = nodes.name(ORDER.instance)
    elsewhere = AppInst(key=AppInstKey(app_key=KEY))
    elsewhere.key.cluster_inst_key.cloudlet_key.CopyFrom(EAST)
    listed.owners = {
        ours: names.owner(ORDER.instance),
        "hello": "",
        nodes.name(elsewhere): names.owner(elsewhere),
        f"{ours}-too": names.owner(elsewhere),
    }
    assert await nodes.carries() == [ours]
    await nodes.remove(f"{ours}-too")
    await nodes.remove("hello")
    for _ in range(2):
        await nodes.remove(ours)
    assert scheduler.destroyed == [ours] * 2
    assert listed.watched == [ours], "until it was over"


async def test_an_app_is_inspected_as_its_instance_stands(listing: Listing) -> None:
    listed, _, nodes = listing
    name, cluster = nodes.name(ORDER.instance), ClusterInst(key=ClusterInstKey(cloudlet_key=PLACE))
    for stands, restarts, faults, containers in (
        ("RUNNING", 0, (), (name,)),
        ("SCHEDULING", 0, (f"does not run: instance {name} is SCHEDULING: so it is",), ()),
        ("RUNNING", 1, (), (name,)),
        ("RUNNING", 7, ("is started again and again, 7 times by now",), (name,)),
        ("", 7, (f"is gone: Windlass has no instance {name}",), ()),
    ):
        listed.stands, listed.restarts = stands, restarts
        found = await nodes.inspect([cluster], [ORDER])
        assert found[name] == Standing(faults, containers)
        assert found[nodes.name(cluster)] == Standing()
