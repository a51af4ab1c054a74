"""How fast GetCluster is, beside a server that does nothing but answer with the same bytes."""

import grpc.aio

from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from tests.bench.callers import load, write
from tests.bench.creation import MACHINES, Ours
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.place import PYTHON, place

METHOD = "cnct.kaas.api.Cluster/GetCluster"
CALLERS = (1, 16, 64)
CLUSTERS = 8
SECONDS = 2.0
LEAST_TIMES = Target(least=0.5)


async def measure(repeats: int) -> list[Figure]:
    """By turns, with the same callers: ours about one cluster and about several, and the echo. The
    target is for the rate of a busy server; what fewer callers get is mostly waiting."""
    async with place(machines=MACHINES * CLUSTERS) as site:
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            stub = ClusterStub(channel)
            ours = Ours(site, client, stub)
            names = [(await ours.make()).name for _ in range(CLUSTERS)]
            requests = [pb.GetClusterMsg(name=name) for name in names]
            reply = await stub.GetCluster(requests[0])
        await site.end("worker", "site")
        answer = site.state / "reply"
        answer.write_bytes(reply.SerializeToString())
        echo = await site.start("echo", PYTHON, "-m", "tests.bench.echo", str(answer))
        address = (await echo.told("ready"))["grpc"]
        raw = [request.SerializeToString() for request in requests]
        one, several = write(site.state / "one", raw[:1]), write(site.state / "several", raw)
        figures = []
        for callers in CALLERS:
            runs = [
                [
                    await load(site, to, METHOD, asked, callers=callers, seconds=SECONDS)
                    for to, asked in ((site.grpc, several), (site.grpc, one), (address, one))
                ]
                for _ in range(repeats)
            ]
            ours_, same, echoed = (
                [run.rate for run in column] for column in zip(*runs, strict=True)
            )
            who = f"{callers} caller{'s' * (callers > 1)}"
            target = LEAST_TIMES if callers == max(CALLERS) else None
            figures += [
                ratio(f"GetCluster / echo, {who}", ours_, echoed, target),
                figure(f"GetCluster, {CLUSTERS} clusters, {who}", "/s", *ours_),
                figure(f"GetCluster, 1 cluster, {who}", "/s", *same),
                figure(f"echo, {who}", "/s", *echoed),
                figure(f"GetCluster, {who}: p99", "ms", *(run[0].worst_ms for run in runs)),
                figure(f"echo, {who}: p99", "ms", *(run[2].worst_ms for run in runs)),
            ]
        return [*figures, figure("reply", "bytes", len(reply.SerializeToString()))]
