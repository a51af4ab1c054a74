"""What was made and then forgotten: when it is removed, and what never is."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from agent.crm import names, strays
from agent.crm.crm import Crm, cloudlet_key
from agent.crm.simulated import Simulated
from domain.errors import Failed
from domain.naming import is_dns_label
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo, ClusterInstKey
from protos.gen.edge.common_pb2 import CREATE_REQUESTED, READY
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey
from protos.gen.edge.notice_pb2 import SENDALL_END, UPDATE, Notice
from tests.support.load import limit

SECONDS = 40
PLACE = cloudlet_key("tele/west")


class Forgetful(Simulated):
    """Lists when it is let, fails at that if it is to, and removes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.lists, self.removes = asyncio.Event(), asyncio.Event()
        self.lists.set()
        self.removes.set()
        self.troubles = 0
        self.removing: list[str] = []

    async def carries(self) -> Any:
        found = await super().carries()
        await self.lists.wait()
        if self.troubles:
            self.troubles -= 1
            raise Failed("no answer")
        return found

    async def remove(self, name: str) -> None:
        self.removing.append(name)
        await self.removes.wait()
        if self.troubles:
            self.troubles -= 1
            raise Failed("no answer")
        await super().remove(name)


class Bench:
    def __init__(self) -> None:
        self.platform = Forgetful()
        self.crm = Crm(PLACE, self.platform, ["nowhere:1"])
        self.asked = 0

    def connect(self) -> None:
        self.crm._begin()
        self.crm.strays.may_ask.set()
        self.hear(None, SENDALL_END)  # as every connection begins

    def hear(self, message: Message | None, action: Any = UPDATE) -> None:
        packed = Packed()
        if message is not None:
            packed.Pack(message)
        self.crm._hear(Notice(action=action, any=packed))

    async def asks(self) -> None:
        """Wait until it asks to be told when all has been told."""
        async with limit(SECONDS):
            while not any(n.action == SENDALL_END for n in await self.crm.reports.next()):
                pass

    async def all_told(self, *told: Message) -> None:
        await self.asks()
        for message in told:
            self.hear(message)
        self.hear(None, SENDALL_END)

    def says_ready(self, *names: str) -> bool:
        infos = [self.crm.reports.get(ClusterInstInfo, cluster(name).key) for name in names]
        return all(info is not None and info.state == READY for info in infos)

    async def until(self, true: Callable[[], object]) -> None:
        async with limit(SECONDS):
            while True:
                if true():
                    return
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.crm._leave_off()


def cluster(name: str, state: Any = READY) -> ClusterInst:
    key = ClusterInstKey(cluster_key=ClusterKey(name=name), cloudlet_key=PLACE, developer="acme")
    return ClusterInst(key=key, state=state)


def instance(app: str, where: str, state: Any = READY) -> AppInst:
    key = AppInstKey(app_key=AppKey(name=app), cluster_inst_key=cluster(where).key)
    return AppInst(key=key, state=state, flavor=FlavorKey(name="small"))


async def test_what_nobody_knows_of_is_removed(bench: Bench) -> None:
    platform = bench.platform
    for name in ("known", "lost"):
        await platform.create_cluster(cluster(name))
        platform.apps[platform.name(instance("shop", name))] = ("shop-0",)
    bench.connect()
    await bench.all_told(cluster("known"), instance("shop", "known"))
    kept = {platform.name(cluster("known")), platform.name(instance("shop", "known"))}
    await bench.until(lambda: {*platform.clusters, *platform.apps} == kept)
    assert len(platform.removing) == 2


async def test_nothing_is_removed_before_all_has_been_told(bench: Bench) -> None:
    """Of what is on its cloudlet nothing is told before the first word that all has been."""
    await bench.platform.create_cluster(cluster("known"))
    bench.connect()
    await bench.asks()
    bench.connect()  # the answer was lost with the connection
    bench.hear(cluster("known"))
    await bench.all_told()
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.platform.removing == []


async def test_what_is_made_meanwhile_is_left_alone(bench: Bench) -> None:
    """By the word of the controller, before the look and after it."""
    await bench.platform.create_cluster(cluster("half", CREATE_REQUESTED))
    bench.connect()
    await bench.asks()
    for name in ("half", "new"):
        bench.hear(cluster(name, CREATE_REQUESTED))
    bench.hear(None, SENDALL_END)
    await bench.until(lambda: bench.says_ready("half", "new"))
    assert bench.platform.removing == []
    assert len(bench.platform.clusters) == 2


async def test_who_asks_for_one_again_waits_until_it_is_removed(bench: Bench) -> None:
    await bench.platform.create_cluster(cluster("lost"))
    bench.platform.removes.clear()
    bench.connect()
    await bench.all_told()
    await bench.until(lambda: bench.platform.removing)
    bench.hear(cluster("lost", CREATE_REQUESTED))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not bench.says_ready("lost")
    bench.platform.removes.set()
    await bench.until(lambda: bench.says_ready("lost"))
    assert list(bench.platform.clusters) == [bench.platform.name(cluster("lost"))]


async def test_what_went_while_it_was_away_is_cleared_away(bench: Bench) -> None:
    """With what it had said of it."""
    bench.connect()
    for message in (App(key=AppKey(name="shop")), Flavor(key=FlavorKey(name="small"))):
        bench.hear(message)
    bench.hear(cluster("c", CREATE_REQUESTED))
    await bench.until(lambda: bench.says_ready("c"))
    bench.connect()
    await bench.all_told()
    await bench.until(lambda: not bench.platform.clusters)
    await bench.until(lambda: bench.crm.reports.get(ClusterInstInfo, cluster("c").key) is None)
    assert bench.platform.removing == []


async def test_it_looks_again_after_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strays, "LOOK_SECONDS", 0.01)
    await bench.platform.create_cluster(cluster("lost"))
    bench.platform.troubles = 1
    bench.connect()
    await bench.asks()  # the first look came to nothing
    bench.platform.troubles = 1  # so does the first removal
    bench.hear(None, SENDALL_END)
    await bench.until(lambda: bench.platform.removing)
    await bench.all_told()
    await bench.until(lambda: not bench.platform.clusters)
    assert len(bench.platform.removing) == 2


async def test_one_question_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to an earlier one says nothing about what was found after it."""
    monkeypatch.setattr(strays, "LOOK_SECONDS", 0.0)
    bench.connect()
    await bench.asks()
    await bench.platform.create_cluster(cluster("later"))
    for _ in range(20):
        await asyncio.sleep(0)
    bench.hear(None, SENDALL_END)
    assert bench.platform.removing == []


def test_names_say_whose_they_are() -> None:
    key = cluster("A long " + "name " * 20).key
    name = names.cluster(key)
    assert is_dns_label(name)
    owner = names.owner(ClusterInst(key=key))
    assert names.parse(owner) == key
    assert names.is_of(PLACE, owner)
    assert not names.is_of(cloudlet_key("tele/east"), owner)
    for nonsense in (
        "",
        "hello",
        "ClusterInst",
        "ClusterInst {",
        'ClusterInst {"no": 1}',
        "App {}",
    ):
        assert not names.is_of(PLACE, nonsense)
    other = ClusterInstKey(cluster_key=key.cluster_key, cloudlet_key=PLACE, developer="other")
    assert names.cluster(other) != name
    assert names.is_of(PLACE, names.owner(instance("shop", "c")))
