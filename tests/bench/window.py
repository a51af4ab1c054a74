"""How fast pods and images are listed and inspected (R-47), beside a server that does nothing but
answer with the same bytes, and how late events reach many listeners, beside one that only passes
bytes on."""

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from statistics import median
from typing import Any

import grpc.aio

from domain.happening import SECOND_NS, Happening, Kind
from domain.pod import App, AppState, Image, Pod, PodState, pod_id
from protos.gen.agent import node_pb2
from protos.gen.agent.node_pb2_grpc import WindowStub
from protos.gen.rkt import api_pb2 as pb
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from tests.agents import enrolled
from tests.bench.figures import Figure, Target, figure, percentile, ratio
from tests.bench.place import PYTHON, Place, place

SIZES = (1, 10, 100)
MANY = 10_000
CALLS = 50
LISTENERS = 1000
EVENTS = 20
EVENT_SECONDS = 0.5
LARGE = [("grpc.max_receive_message_length", 64 * 2**20)]
MOST_MS = {False: Target(most=10), True: Target(most=30)}
"""What a list of a hundred pods may take, without detail and with it."""


def _items(first: int, last: int) -> list[node_pb2.Item]:
    """Pods and images by number: each of its own."""
    items = []
    for number in range(first, last):
        image = Image(id=f"sha512-{number:064x}", name=f"example.com/app-{number}", manifest="{}")
        notes = (("windlass/instance", f"app-{number}"), ("windlass/node", "n1"))
        pod = Pod(
            id=pod_id("", f"app-{number}", 1),
            state=PodState.RUNNING,
            apps=(App(name="app", image=image, state=AppState.RUNNING),),
            annotations=notes,
            manifest="{}" * 200,
        )
        items += [
            node_pb2.Item(number=2 * number + 1, pod=pod.model_dump_json()),
            node_pb2.Item(number=2 * number + 2, image=image.model_dump_json()),
        ]
    return items


async def measure(repeats: int) -> list[Figure]:
    """The fleet grows from one pod to a hundred, and then to ten thousand."""
    async with place(machines=1) as site:
        await site.end("worker", "site")
        async with grpc.aio.insecure_channel(site.grpc, options=LARGE) as channel:
            window, public = WindowStub(channel), PublicAPIStub(channel)
            await enrolled(channel, "n1", site.grpc)
            figures, there = [], 0
            for size in SIZES:
                await _report(window, there, size)
                there = size
                figures += await _lists(public, size, repeats)
            await _report(window, there, MANY)
            async with _echo(site, public) as echo:
                figures += await _beside_echo(site, public, echo, repeats)
                figures += await _events(window, public, echo, repeats)
        return figures


async def _report(window: WindowStub, first: int, last: int) -> None:
    for begin in range(first, last, 400):
        items = _items(begin, min(begin + 400, last))
        await window.Report(node_pb2.ReportRequest(node="n1", epoch="e", items=items))


async def _lists(public: PublicAPIStub, size: int, repeats: int) -> list[Figure]:
    some = pb.InspectPodRequest(id=pod_id("", f"app-{size - 1}", 1))
    figures = [
        figure(f"inspect, {size} pods", "ms", *await _timed(public.InspectPod, some, repeats))
    ]
    for detail in (False, True):
        words = "with detail" if detail else "without detail"
        pods = await _timed(public.ListPods, pb.ListPodsRequest(detail=detail), repeats)
        images = await _timed(public.ListImages, pb.ListImagesRequest(detail=detail), repeats)
        target = MOST_MS[detail] if size == max(SIZES) else None
        figures += [
            figure(f"list of {size} pods, {words}", "ms", *pods, target=target),
            figure(f"list of {size} images, {words}", "ms", *images),
        ]
    return figures


async def _timed(method: object, request: object, repeats: int) -> list[float]:
    """Milliseconds, the median of many calls for each repeat."""
    runs = []
    for _ in range(repeats):
        took = []
        for _ in range(CALLS):
            began = time.perf_counter()
            await method(request)  # type: ignore[operator]
            took.append(1000 * (time.perf_counter() - began))
        runs.append(median(took))
    return runs


@asynccontextmanager
async def _echo(site: Place, public: PublicAPIStub) -> AsyncIterator[grpc.aio.Channel]:
    """A server that answers with the bytes of all pods, and passes on what it is told."""
    path = site.state / "pods"
    path.write_bytes((await public.ListPods(pb.ListPodsRequest())).SerializeToString())
    echo = await site.start("echo", PYTHON, "-m", "tests.bench.echo", str(path))
    address = (await echo.told("ready"))["grpc"]
    async with grpc.aio.insecure_channel(address, options=LARGE) as channel:
        yield channel


async def _beside_echo(
    site: Place, public: PublicAPIStub, echo: grpc.aio.Channel, repeats: int
) -> list[Figure]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        for stub, runs in ((public, ours), (PublicAPIStub(echo), theirs)):
            began = time.perf_counter()
            await stub.ListPods(pb.ListPodsRequest())
            runs.append(1000 * (time.perf_counter() - began))
    size = (site.state / "pods").stat().st_size
    return [
        ratio(f"ListPods / echo, {MANY} pods", ours, theirs),
        figure(f"ListPods, {MANY} pods", "ms", *ours),
        figure(f"echo of the same bytes, {size} bytes", "ms", *theirs),
    ]


Tell = Callable[[Happening], Awaitable[object]]


async def _events(
    window: WindowStub, public: PublicAPIStub, echo: grpc.aio.Channel, repeats: int
) -> list[Figure]:
    numbers = count(10**6)

    async def report(one: Happening) -> None:
        item = node_pb2.Item(number=next(numbers), happening=one.model_dump_json())
        await window.Report(node_pb2.ReportRequest(node="n1", epoch="e", items=[item]))

    async def tell(one: Happening) -> None:
        data = [pb.KeyValue(Key=key, value=value) for key, value in one.data]
        event = pb.Event(
            type=pb.EVENT_TYPE_POD_STARTED, id=one.id, time=one.time_ns // SECOND_NS, data=data
        )
        await told(pb.ListenEventsResponse(events=[event]).SerializeToString())

    told: Any = echo.unary_unary("/bench.Echo/Tell")
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        ours.append(await _late(public, report))
        theirs.append(await _late(PublicAPIStub(echo), tell))
    return [
        figure(f"an event to {LISTENERS} listeners: p99", "ms", *ours),
        figure("the same from a server that passes bytes on", "ms", *theirs),
        ratio("an event / passed on", ours, theirs),
    ]


async def _late(public: PublicAPIStub, tell: Tell) -> float:
    """From before it is told to each listener that has it, in ms: the 99th percentile."""
    calls = [public.ListenEvents(pb.ListenEventsRequest()) for _ in range(LISTENERS)]
    await asyncio.gather(*(call.initial_metadata() for call in calls))
    late: list[float] = []

    async def hear(call: AsyncIterable[pb.ListenEventsResponse]) -> None:
        heard = 0
        async for message in call:
            now = time.time_ns()
            late.extend((now - int(event.data[0].value)) / 10**6 for event in message.events)
            heard += len(message.events)
            if heard >= EVENTS:
                return

    listening = [asyncio.create_task(hear(call)) for call in calls]
    for _ in range(EVENTS):
        now = time.time_ns()
        data = (("sent", str(now)),)
        await tell(Happening(kind=Kind.POD_STARTED, id="p", name="p", time_ns=now, data=data))
        await asyncio.sleep(EVENT_SECONDS)
    await asyncio.gather(*listening)
    for call in calls:
        call.cancel()
    return percentile(late, 0.99)
