"""What signing in costs a read, and what the HTTP door costs it: the same call about the same
cluster, where nobody has to sign in, where everybody has to, and by Connect with JSON."""

import json
from datetime import timedelta

import grpc.aio

from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from store.engine import Database
from store.tokens import Tokens
from store.users import Users
from tests.bench.callers import load, write
from tests.bench.creation import MACHINES, Ours
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.place import PYTHON, place

METHOD = "cnct.kaas.api.Cluster/GetCluster"
CALLERS = 64
SECONDS = 3.0
LEAST_TIMES = Target(least=0.85)


async def measure(repeats: int) -> list[Figure]:
    """By turns, with the same callers, each time on both processes of one place."""
    async with place(machines=MACHINES) as site:
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            cluster = await Ours(site, client, ClusterStub(channel)).make()
        await site.end("worker", "site")
        closed = await site.start("closed", PYTHON, "-m", "api", WINDLASS_AUTH__MODE="required")
        ready = await closed.told("ready")
        token = await _token(site.environment["WINDLASS_DATABASE"])
        asked = pb.GetClusterMsg(name=cluster.name).SerializeToString()
        native = write(site.state / "native", [asked])
        document = write(site.state / "json", [json.dumps({"name": cluster.name}).encode()])
        ways = (
            (site.grpc, native, ""),
            (ready["grpc"], native, token),
            (f"http://{ready['http']}", document, token),
        )
        runs = [
            [
                await load(site, to, METHOD, said, callers=CALLERS, seconds=SECONDS, token=carried)
                for to, said, carried in ways
            ]
            for _ in range(repeats)
        ]
    free, signed, web = ([run.rate for run in column] for column in zip(*runs, strict=True))
    refused = [sum(each.refused for each in run) for run in runs]
    return [
        ratio("GetCluster, signed in / open", signed, free, LEAST_TIMES),
        ratio("GetCluster, Connect JSON / native, signed in", web, signed),
        figure("GetCluster, open", "/s", *free),
        figure("GetCluster, signed in", "/s", *signed),
        figure("GetCluster, Connect JSON, signed in", "/s", *web),
        figure("refused", "calls", *refused, target=Target(most=0)),
    ]


async def _token(url: str) -> str:
    database = Database(url, connections=1)
    await Users(database).begin("admin", "")
    token, _ = await Tokens(database).issue("admin", lifetime=timedelta(hours=1), label="bench")
    await database.close()
    return token
