"""The PublicAPI over the whole fleet: what nodes reported, seen through a channel."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from api.__main__ import Api
from api.rkt.public import About
from api.rkt.states import APP_STATES, FORMATS, KINDS, POD_STATES
from domain.agents import SECRET
from domain.happening import SECOND_NS, Happening, Kind
from domain.logline import Chunk, Line, written
from domain.pod import App, AppState, Format, Image, Pod, PodState, pod_id
from protos.gen.agent import node_pb2
from protos.gen.agent.node_pb2_grpc import WindowStub
from protos.gen.kudo import scheduler_pb2 as kudo
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from protos.gen.rkt import api_pb2 as pb
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from store.engine import Database
from store.window_rows import LogRow
from tests.agents import enrolled
from tests.api.caller import Caller, refused
from tests.store.desk import until

NOW = int(time.time())
IMAGE = Image(id="sha512-" + "a" * 64, name="coreos.com/etcd", imported=NOW, size=7, manifest="{}")
ONE, TWO = pod_id("", "one", 1), pod_id("", "two", 1)


class Node:
    """A node that reports, numbering what it tells."""

    def __init__(self, caller: Caller, name: str = "n1", epoch: str = "first") -> None:
        self._caller, self._window = caller, WindowStub(caller.channel)
        self.name, self.epoch, self.number = name, epoch, 0
        self.proof = (SECRET, f"known to {name} alone")

    async def join(self) -> "Node":
        """Be one of the fleet's."""
        caller = self._caller
        welcome = await enrolled(caller.channel, self.name, caller.address, self.proof)
        assert welcome.code == 0, welcome.description
        return self

    def item(self, **what: Any) -> node_pb2.Item:
        self.number += 1
        return node_pb2.Item(number=self.number, **what)

    async def raw(self, report: node_pb2.ReportRequest) -> node_pb2.ReportResponse:
        answer: node_pb2.ReportResponse = await self._window.Report(
            report, metadata=(self.proof,), timeout=20
        )
        return answer

    async def tell(self, *items: node_pb2.Item) -> int:
        report = node_pb2.ReportRequest(node=self.name, epoch=self.epoch, items=items)
        return (await self.raw(report)).taken

    def pod(self, id: str, state: PodState = PodState.RUNNING, **more: Any) -> node_pb2.Item:
        app = App(name="app", image=IMAGE, state=AppState.RUNNING)
        notes = (("windlass/node", self.name),)
        pod = Pod(id=id, state=state, apps=(app,), annotations=notes, manifest="{}", **more)
        return self.item(pod=pod.model_dump_json())

    def happened(self, kind: Kind, id: str = ONE, *, time_ns: int = 0) -> node_pb2.Item:
        time_ns = time_ns or time.time_ns()
        one = Happening(kind=kind, id=id, name="app", time_ns=time_ns, data=(("node", "n1"),))
        return self.item(happening=one.model_dump_json())

    def wrote(self, offset: int, *lines: tuple[float, str], pod: str = ONE) -> node_pb2.Item:
        raw = b"".join(written(Line(int(at * SECOND_NS), "stdout", text)) for at, text in lines)
        chunk = Chunk(offset=offset, lines=raw)
        log = node_pb2.LogChunk(pod=pod, app="app", offset=chunk.offset, lines=chunk.lines)
        return self.item(log=log)


@pytest.fixture
def public(caller: Caller) -> PublicAPIStub:
    return PublicAPIStub(caller.channel)


@pytest.fixture
async def node(caller: Caller) -> Node:
    return await Node(caller).join()


def test_every_state_has_a_public_word() -> None:
    assert POD_STATES.keys() == set(PodState)
    assert APP_STATES.keys() == set(AppState)
    assert FORMATS.keys() == set(Format)
    assert KINDS.keys() == set(Kind)


async def logs(public: PublicAPIStub, pod: str = ONE, **asked: Any) -> list[list[str]]:
    request = pb.GetLogsRequest(pod_id=pod, **asked)
    return [
        [line.split(" ", 1)[1] for line in message.lines]
        async for message in public.GetLogs(request, timeout=20)
    ]


SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("v0.1.0", "0.1.0"),
        ("v1.30.0+git.abc1234", "1.30.0+git.abc1234"),
        ("1.2.0rc1", "1.2.0-rc1"),
        ("1.2.0.dev3+g12.d2026", "1.2.0-dev3+g12.d2026"),
        ("unknown", "0.0.0"),
    ],
)
def test_a_version_is_told_as_semver_without_v(version: str, told: str) -> None:
    about = About(version=version, directory=".windlass")
    assert about.version == told
    assert SEMVER.fullmatch(about.version)


def test_the_data_directory_is_told_from_the_root() -> None:
    assert Path(About(version="1.0.0", directory=".windlass").directory) == Path.cwd() / ".windlass"


async def test_r26_r27_r28_a_fresh_store(public: PublicAPIStub) -> None:
    info = (await public.GetInfo(pb.GetInfoRequest(), timeout=20)).info
    assert (info.api_version, info.appc_version) == ("1.0.0-alpha", "0.8.11")
    assert info.global_flags.insecure_flags == "none"
    assert Path(info.global_flags.dir).is_absolute()
    assert SEMVER.fullmatch(info.rkt_version), info.rkt_version
    assert not (await public.ListPods(pb.ListPodsRequest(), timeout=20)).pods
    assert not (await public.ListImages(pb.ListImagesRequest(), timeout=20)).images


async def test_r29_r30_r36_r38_pods_and_images_are_listed_and_inspected(
    public: PublicAPIStub, node: Node
) -> None:
    """One that runs and one that could not be made ready: both are there. Manifests on request."""
    told = (
        node.item(image=IMAGE.model_dump_json()),
        node.pod(ONE, pid=7, cgroup="/a"),
        node.pod(TWO, PodState.ABORTED_PREPARE),
        node.wrote(0, (NOW, "hello")),
    )
    assert await node.tell(*told) == 4

    listed = (await public.ListPods(pb.ListPodsRequest(), timeout=20)).pods
    assert {pod.id: pod.state for pod in listed} == {
        ONE: pb.POD_STATE_RUNNING,
        TWO: pb.POD_STATE_ABORTED_PREPARE,
    }
    assert not any(pod.manifest for pod in listed)
    running = pb.PodFilter(states=[pb.POD_STATE_RUNNING], pod_sub_cgroups=["/a/b"])
    asked = pb.ListPodsRequest(filters=[running], detail=True)
    (one,) = (await public.ListPods(asked, timeout=20)).pods
    assert (one.id, one.manifest, one.pid, one.apps[0].image.id) == (ONE, b"{}", 7, IMAGE.id)
    inspected = (await public.InspectPod(pb.InspectPodRequest(id=ONE[:9]), timeout=20)).pod
    assert inspected == one
    assert (await logs(public, lines=10, since_time=NOW - 5)) == [["hello"]]

    by_prefix = pb.ListImagesRequest(filters=[pb.ImageFilter(prefixes=["coreos.com"])])
    (found,) = (await public.ListImages(by_prefix, timeout=20)).images
    assert (found.manifest, found.size, found.import_timestamp) == (b"", 7, NOW)
    whole = (await public.InspectImage(pb.InspectImageRequest(id=IMAGE.id), timeout=20)).image
    assert (whole.manifest, whole.version) == (b"{}", "latest")


async def test_r33_pods_whose_manifests_and_images_are_gone_are_listed_all_the_same(
    public: PublicAPIStub, node: Node
) -> None:
    image = node.item(image=IMAGE.model_dump_json())
    bare = Pod(id=TWO, state=PodState.RUNNING)
    await node.tell(image, node.pod(ONE), node.item(pod=bare.model_dump_json()))
    await node.tell(node.item(image_gone=IMAGE.id))
    for detail in (False, True):
        listed = await public.ListPods(pb.ListPodsRequest(detail=detail), timeout=20)
        assert {pod.id for pod in listed.pods} == {ONE, TWO}
    assert not (await public.ListImages(pb.ListImagesRequest(), timeout=20)).images


async def test_what_a_node_told_before_is_passed_over(
    public: PublicAPIStub, node: Node, caller: Caller
) -> None:
    """An answer that was lost has the node tell it again; a node without memory begins anew."""
    items = [node.item(image=IMAGE.model_dump_json()), node.wrote(0, (NOW, "a"))]
    assert await node.tell(*items) == 2
    assert await node.tell(*items, node.wrote(44, (NOW, "b"))) == 3
    await node.tell(node.pod(TWO))
    anew = Node(caller, epoch="second")
    assert await anew.tell(anew.pod(ONE), anew.wrote(0, (NOW, "a"))) == 2
    assert await logs(public) == [["a", "b"]]
    assert not (await public.ListImages(pb.ListImagesRequest(), timeout=20)).images
    gone = (await public.InspectPod(pb.InspectPodRequest(id=TWO), timeout=20)).pod
    assert gone.state == pb.POD_STATE_GARBAGE, "what an agent does not know it removes"
    assert gone.gc_marked_at


async def test_only_a_node_is_listed_if_asked_so(public: PublicAPIStub, caller: Caller) -> None:
    for name, id in (("n1", ONE), ("n2", TWO)):
        node = await Node(caller, name).join()
        await node.tell(node.pod(id), node.item(image=IMAGE.model_dump_json()))
    only = (("x-windlass-node", "n2"),)
    asked = pb.ListPodsRequest()
    assert [pod.id for pod in (await public.ListPods(asked, metadata=only, timeout=20)).pods] == [
        TWO
    ]
    images = await public.ListImages(pb.ListImagesRequest(), timeout=20)
    assert len(images.images) == 1, "an image is listed once, however many nodes have it"


async def test_r39_lines_since_and_until(public: PublicAPIStub, node: Node) -> None:
    told = [(NOW + each, str(each)) for each in range(6)]
    await node.tell(node.pod(ONE), node.pod(TWO), node.wrote(0, *told))
    assert await logs(public) == [["0", "1", "2", "3", "4", "5"]]
    assert await logs(public, lines=2) == [["4", "5"]]
    assert await logs(public, since_time=NOW + 3) == [["4", "5"]]
    assert await logs(public, until_time=NOW + 2) == [["0", "1"]]
    assert await logs(public, lines=2, since_time=NOW, until_time=NOW + 4) == [["2", "3"]]
    assert await logs(public, pod=TWO) == [[]], "one answer, without lines"


async def test_r40_following_ends_when_it_was_to_and_tells_new_lines_within_a_second(
    public: PublicAPIStub, node: Node
) -> None:
    await node.tell(node.pod(ONE), node.wrote(0, (NOW, "old")))
    request = pb.GetLogsRequest(pod_id=ONE, follow=True)
    followed = aiter(public.GetLogs(request, timeout=20))
    assert [line[-3:] for line in (await anext(followed)).lines] == ["old"]
    await node.tell(node.wrote(100, (NOW, "new")))
    async with asyncio.timeout(1):
        assert [line[-3:] for line in (await anext(followed)).lines] == ["new"]
    await node.tell(node.wrote(200, (NOW, "end")), node.pod(ONE, PodState.EXITED))
    assert [[line[-3:] for line in message.lines] async for message in followed] == [["end"]]

    await node.tell(node.pod(ONE))
    end = int(time.time()) + 2
    assert await logs(public, follow=True, until_time=end, lines=1) == [["end"]]
    assert end <= time.time() <= end + 0.3


async def test_r40_who_cancels_leaves_nothing_behind(
    public: PublicAPIStub, node: Node, api: Api
) -> None:
    await node.tell(node.pod(ONE), node.wrote(0, (NOW, "old")))
    request = pb.GetLogsRequest(pod_id=ONE, follow=True)
    calls = [public.GetLogs(request, timeout=20) for _ in range(3)]
    for call in calls:
        await call.read()
    assert (len(api._pods._pulse._listeners), api._server._door.has_streams) == (3, True)
    for call in calls:
        call.cancel()
    await until(lambda: not api._pods._pulse._listeners)
    await until(lambda: not api._server._door.has_streams)


async def test_what_a_node_dropped_before_it_told_it_is_passed_over(
    public: PublicAPIStub, node: Node, database: Database
) -> None:
    """It comes as an empty piece, of which databases of before have rows."""
    await node.tell(node.pod(ONE), node.wrote(0, (NOW, "old")), node.wrote(44))
    assert await logs(public) == [["old"]]
    async with database.session(writes=True) as session:
        session.add(LogRow(pod=ONE, app="app", position=44, lines=b""))
    assert await logs(public) == [["old"]]
    await node.tell(node.wrote(90, (NOW, "new")))
    assert await logs(public) == [["old", "new"]]


class Listener:
    """Someone who listens, from the moment that the server says so."""

    def __init__(self, public: PublicAPIStub, **asked: Any) -> None:
        filter = pb.EventFilter(**asked)
        self._call = public.ListenEvents(pb.ListenEventsRequest(filter=filter), timeout=30)
        self._told = aiter(self._call)

    async def subscribed(self) -> "Listener":
        await self._call.initial_metadata()
        return self

    async def hear(self, number: int) -> list[pb.Event]:
        heard: list[pb.Event] = []
        while len(heard) < number:
            heard += (await anext(self._told)).events
        return heard

    async def rest(self) -> list[pb.Event]:
        return [event async for message in self._told for event in message.events]


LIFE = (Kind.POD_PREPARED, Kind.POD_STARTED, Kind.APP_STARTED, Kind.APP_EXITED, Kind.POD_EXITED)


async def test_r42_r43_a_past_since_is_replayed_and_followed_without_gap_or_repeat(
    public: PublicAPIStub, node: Node
) -> None:
    await node.tell(*[node.happened(kind) for kind in LIFE])
    all_of_it = await Listener(public, since_time=NOW - 5).subscribed()
    only = {"types": [pb.EVENT_TYPE_POD_EXITED], "ids": [ONE], "names": ["app"]}
    exits = await Listener(public, since_time=NOW - 5, **only).subscribed()
    live = await Listener(public).subscribed()
    for _ in range(20):
        await node.tell(node.happened(Kind.POD_EXITED), node.happened(Kind.POD_STARTED))
    kinds = [KINDS[kind] for kind in LIFE] + [
        pb.EVENT_TYPE_POD_EXITED,
        pb.EVENT_TYPE_POD_STARTED,
    ] * 20
    assert [event.type for event in await all_of_it.hear(45)] == kinds
    assert len(await exits.hear(21)) == 21
    heard = await live.hear(40)
    assert [event.type for event in heard] == kinds[5:], "only what came after it listened"
    assert (heard[0].id, getattr(heard[0], "from"), heard[0].data[0].value) == (ONE, "app", "n1")


async def test_r44_r45_times_that_bound_a_listening(public: PublicAPIStub, node: Node) -> None:
    await node.tell(node.happened(Kind.POD_STARTED, time_ns=(NOW - 100) * SECOND_NS + 1))
    await node.tell(node.happened(Kind.POD_EXITED))
    past = Listener(public, since_time=NOW - 101, until_time=NOW - 50)
    assert [event.type for event in await past.rest()] == [pb.EVENT_TYPE_POD_STARTED]

    soon = int(time.time()) + 1
    assert await Listener(public, until_time=soon).rest() == []
    assert time.time() >= soon, "not before its end"

    later = await Listener(public, since_time=soon + 60).subscribed()
    await node.tell(node.happened(Kind.POD_PREPARED, time_ns=(soon + 60) * SECOND_NS - 1))
    await node.tell(node.happened(Kind.POD_STARTED, time_ns=(soon + 60) * SECOND_NS + 1))
    assert [event.type for event in await later.hear(1)] == [pb.EVENT_TYPE_POD_STARTED]

    never = await Listener(public, since_time=10**12).subscribed()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await never.hear(1)


async def test_pods_of_a_node_that_is_gone_do_not_seem_to_run(
    public: PublicAPIStub, node: Node, caller: Caller
) -> None:
    await node.tell(node.pod(ONE), node.pod(TWO, PodState.EXITED))
    leaving = kudo.NodeUnregisterRequest(id="n1")
    await NodeServiceStub(caller.channel).Unregister(leaving, timeout=20)
    running = pb.ListPodsRequest(filters=[pb.PodFilter(states=[pb.POD_STATE_RUNNING])])
    assert not (await public.ListPods(running, timeout=20)).pods
    found = (await public.ListPods(pb.ListPodsRequest(), timeout=20)).pods
    assert {pod.id: pod.state for pod in found} == {
        ONE: pb.POD_STATE_UNDEFINED,
        TWO: pb.POD_STATE_EXITED,
    }
    one = (await public.InspectPod(pb.InspectPodRequest(id=ONE), timeout=20)).pod
    assert {each.Key: each.value for each in one.annotations}["windlass/node-state"] == "gone"
    await node.join()
    assert len((await public.ListPods(running, timeout=20)).pods) == 1


async def test_a_node_reports_for_itself_alone(
    public: PublicAPIStub, node: Node, caller: Caller
) -> None:
    await node.tell(node.pod(ONE, pid=1))
    other = await Node(caller, "n2").join()
    stranger = Node(caller, "n3")
    for impostor, name, code, reason in (
        (other, "n1", FORBIDDEN, "NODE_NOT_YOURS"),
        (stranger, "n1", FORBIDDEN, "NODE_NOT_YOURS"),
        (stranger, "n3", NOT_FOUND, "NODE_NOT_REGISTERED"),
    ):
        items = [impostor.pod(ONE, PodState.EXITED)]
        report = node_pb2.ReportRequest(node=name, epoch="first", items=items)
        refusal = await refused(impostor.raw(report))
        assert (refusal.code, refusal.reason) == (code, reason)
    [pod] = (await public.ListPods(pb.ListPodsRequest(), timeout=20)).pods
    assert pod.state == pb.POD_STATE_RUNNING
    node.proof = (SECRET, "drawn anew")  # its agent has lost its memory
    assert (await refused(node.tell(node.pod(ONE)))).reason == "NODE_NOT_YOURS"
    await node.join()
    await node.tell(node.pod(ONE))


FORBIDDEN = grpc.StatusCode.PERMISSION_DENIED
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


async def test_r46_what_is_not_there_or_cannot_be_meant(public: PublicAPIStub, node: Node) -> None:
    await node.tell(node.pod(ONE), node.pod("abc"), node.pod("abd"))

    async def log(**asked: Any) -> None:
        await logs(public, **asked)

    async def listening(**asked: Any) -> None:
        await Listener(public, **asked).rest()

    many = pb.ListPodsRequest(filters=[pb.PodFilter()] * 1001)
    broken = node_pb2.ReportRequest(node="n1", epoch="first", items=[node.item(pod="{}")])
    for call, code, reason in (
        (public.InspectPod(pb.InspectPodRequest(id="0000")), NOT_FOUND, "POD_NOT_FOUND"),
        (public.InspectPod(pb.InspectPodRequest()), INVALID, "POD_ID_MISSING"),
        (public.InspectPod(pb.InspectPodRequest(id="ab")), INVALID, "POD_ID_AMBIGUOUS"),
        (public.InspectImage(pb.InspectImageRequest(id="0")), NOT_FOUND, "IMAGE_NOT_FOUND"),
        (public.InspectImage(pb.InspectImageRequest()), INVALID, "IMAGE_ID_MISSING"),
        (log(pod="0000"), NOT_FOUND, "POD_NOT_FOUND"),
        (log(app_name="none"), NOT_FOUND, "APP_NOT_FOUND"),
        (log(lines=-1), INVALID, "TIME_INVALID"),
        (log(since_time=2, until_time=1), INVALID, "TIME_INVALID"),
        (listening(since_time=2, until_time=2), INVALID, "TIME_INVALID"),
        (public.ListPods(many), INVALID, "FILTER_TOO_LONG"),
        (node.raw(node_pb2.ReportRequest(node="n1")), INVALID, "REPORT_UNREADABLE"),
        (node.raw(broken), INVALID, "REPORT_UNREADABLE"),
    ):
        refusal = await refused(call)
        assert (refusal.code, refusal.reason) == (code, reason)
