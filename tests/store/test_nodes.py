"""Nodes in the rows: who is taken in, who is alive, and what they are given."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from api.ops import running
from domain.errors import Conflict, Invalid, NotFound
from domain.instance import Phase, Restart
from domain.logline import Chunk
from domain.node import NodePhase, Said, Welcome
from domain.placement import Amounts, Demands
from domain.pod import NODE_STATE, Image, Pod, PodState, pod_id
from domain.report import Item, LogPiece, Report
from store.engine import Database
from store.nodes import Beat, Leases
from store.rows import now
from store.tracked import TENANT
from store.window import FleetWindow
from tests.store.dock import HUNDRED, Dock

SHORT = Leases(lost=timedelta(0), suspect=timedelta(0), quarantine=timedelta(0))
TINY = Leases(subnets="10.64.0.0/23")
NO_REST = {"quarantine": timedelta(0)}


@pytest.fixture
async def dock(database: Database) -> AsyncIterator[Dock]:
    dock = Dock(database, TINY)
    yield dock
    await dock.close()


async def test_k21_a_node_keeps_its_subnet_and_the_pool_runs_dry(dock: Dock) -> None:
    first = await dock.node("a")
    again = await dock.register("a")
    assert (first.outcome, again.subnet) == (Welcome.WELCOME, first.subnet)
    second = await dock.register("b")
    assert {first.subnet, second.subnet} == {"10.64.0.0/24", "10.64.1.0/24"}
    assert (await dock.register("c")).outcome is Welcome.NO_SUBNET


async def test_a_subnet_is_free_again_only_after_its_quarantine(database: Database) -> None:
    dock = Dock(database, TINY)
    assert (await dock.register("a")).subnet == "10.64.0.0/24"
    await dock.nodes.unregister("a")
    assert (await dock.register("b")).subnet == "10.64.1.0/24"
    soon = Dock(database, TINY.model_copy(update={"quarantine": timedelta(0)}))
    await soon.nodes.unregister("b")
    assert (await dock.register("c")).subnet == "10.64.1.0/24"


async def test_the_subnet_of_a_node_that_is_lost_comes_back_after_its_quarantine(
    database: Database,
) -> None:
    """Nodes that never said goodbye kept every subnet for ever."""
    dock = Dock(database, TINY)
    for name in ("a", "b"):
        await dock.node(name)
    soon = Dock(database, TINY.model_copy(update={"lost": timedelta(0)}))
    assert sorted(await soon.nodes.expire()) == ["a", "b"]
    assert (await soon.register("c")).outcome is Welcome.NO_SUBNET, "it rests first"
    at_once = Dock(database, TINY.model_copy(update=SHORT.model_dump(include={"lost"}) | NO_REST))
    assert (await at_once.register("c")).subnet == "10.64.0.0/24"
    with pytest.raises(NotFound, match="there is no node a"):
        await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts())
    assert (await dock.register("a")).subnet == "10.64.1.0/24", "it registers anew, and has another"


async def test_a_node_counts_with_no_more_than_the_operator_believes(database: Database) -> None:
    largest = Amounts(cpu=10, memory=50, disk=1000)
    dock = Dock(database, TINY.model_copy(update={"largest": largest}))
    await dock.register("a")
    await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts())
    assert (await dock.nodes.get("a")).limit == Amounts(cpu=10, memory=50, disk=HUNDRED.disk)


async def test_one_registrar_has_so_many_nodes_and_no_more(database: Database) -> None:
    dock = Dock(database, Leases(per_user=2))
    for name in ("a", "b", "a"):
        assert (await dock.register(name, registrar="crew")).outcome is Welcome.WELCOME
    refused = await dock.register("c", registrar="crew")
    assert (refused.outcome, "crew has 2 nodes" in refused.says) == (Welcome.NO_SUBNET, True)
    assert (await dock.register("c", registrar="others")).outcome is Welcome.WELCOME
    assert (await dock.register("d")).outcome is Welcome.WELCOME, "somebody decided about this one"


async def test_an_id_is_freed_once_its_node_is_away(dock: Dock) -> None:
    await dock.node("a", fingerprint="x")
    with pytest.raises(Conflict, match="node a is there"):
        await dock.nodes.free("a")
    assert await Dock(dock.database, SHORT).nodes.expire() == ["a"]
    await dock.nodes.free("a")
    assert (await dock.register("a", fingerprint="y")).outcome is Welcome.WELCOME
    with pytest.raises(NotFound):
        await dock.nodes.free("never")


async def test_an_id_belongs_to_one_key_at_one_address(dock: Dock) -> None:
    assert (await dock.node("a", fingerprint="x")).outcome is Welcome.WELCOME
    other_place = await dock.register("a", fingerprint="x", address="elsewhere:1")
    other_key = await dock.register("a", fingerprint="y")
    assert (other_place.outcome, other_key.outcome) == (Welcome.IN_USE, Welcome.IN_USE)
    lost = Dock(dock.database, SHORT)
    assert await lost.nodes.expire() == ["a"]
    assert (await dock.register("a", fingerprint="y")).outcome is Welcome.BAD_CERTIFICATE
    assert (await dock.register("a", fingerprint="x", address="new:1")).subnet == "10.64.0.0/24"
    await dock.nodes.unregister("a")
    assert (await dock.register("a", fingerprint="y")).outcome is Welcome.WELCOME


async def test_k12_a_node_takes_work_from_its_first_running_with_a_limit(dock: Dock) -> None:
    await dock.register("a")
    refused = await dock.placed("web-0")
    assert (await dock.at(refused)).says == "no available nodes: a is starting, lacks 10 cpu " + (
        "(10 wanted; 95% of 0 may be taken and 0 is), lacks 10 memory "
        "(10 wanted; 95% of 0 may be taken and 0 is), lacks 10 disk "
        "(10 wanted; 95% of 0 may be taken and 0 is)"
    )
    with pytest.raises(Invalid, match="not with how much"):
        await dock.nodes.hear("a", Said.RUNNING, "", None, Amounts())
    for number, said in enumerate((Said.STARTING, Said.STOPPING, Said.FAILED)):
        await dock.nodes.hear("a", said, "", HUNDRED, Amounts())
        assert (await dock.at(await dock.placed(f"no-{number}"))).phase is Phase.FAILED
    await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts(cpu=99, memory=99))
    assert (await dock.at(await dock.placed("web-1"))).node == "a"
    assert await dock.nodes.expire() == []
    assert await Dock(dock.database, SHORT).nodes.expire() == ["a"]
    assert (await dock.at(await dock.placed("web-2"))).phase is Phase.FAILED


async def test_a_node_that_is_not_registered_is_not_heard(dock: Dock) -> None:
    with pytest.raises(NotFound) as refused:
        await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts())
    assert refused.value.do == "register first"
    await dock.node("a")
    assert await dock.nodes.unregister("a") is True
    assert await dock.nodes.unregister("a") is False
    with pytest.raises(NotFound):
        await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts())
    with pytest.raises(Conflict, match="has left"):
        await dock.nodes.cordon("a", cordoned=True)


async def test_beats_renew_leases_and_name_whoever_has_to_be_heard_out(dock: Dock) -> None:
    await dock.node("a")
    await dock.node("b")
    used, heard = Amounts(cpu=7), time.monotonic() - 3600
    assert await dock.nodes.beat([Beat(node="a", used=used, heard=heard)]) == set()
    assert (await dock.nodes.get("a")).used == used
    hour = now() - (await dock.nodes.get("a")).heard
    assert timedelta(minutes=59) < hour < timedelta(minutes=61)
    assert sorted(await Dock(dock.database, SHORT).nodes.expire()) == ["a", "b"]
    assert await dock.nodes.beat([Beat(node="a", used=used, heard=time.monotonic())]) == {"a"}
    await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, used)
    assert [view.phase for view in await dock.nodes.all()] == [NodePhase.RUNNING, NodePhase.LOST]


async def test_a_closed_node_takes_nothing_new_and_keeps_what_it_has(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs("web-1", restart=Restart.ALWAYS)
    view = await dock.nodes.cordon("a", cordoned=True)
    assert (view.cordoned, view.instances) == (True, 1)
    assert (await dock.at(await dock.placed("web-2"))).phase is Phase.FAILED
    assert (await dock.at(uid)).node == "a"
    await dock.nodes.drain("a", timedelta(hours=1))
    assert await dock.neglect.draining() == ["a"]
    await dock.nodes.cordon("a", cordoned=False)
    assert await dock.neglect.draining() == []
    assert (await dock.at(await dock.placed("web-3"))).node == "a"


async def test_what_was_told_by_nodes_that_are_away_is_forgotten_in_the_end(dock: Dock) -> None:
    """Nobody will ever say how their pods ended."""
    window = FleetWindow(dock.database, log_bytes=1000)
    for node in ("a", "b"):
        await dock.node(node)
        pod = Pod(id=pod_id("", node, 1), state=PodState.RUNNING)
        piece = LogPiece(pod=pod.id, app="app", chunk=Chunk(offset=0, lines=b"x\n"))
        told = (pod, piece, Image(id=f"sha512-{node}"))
        items = tuple(Item(number=at, what=what) for at, what in enumerate(told, start=1))
        await window.take(Report(node=node, epoch="e", items=items))
    await dock.nodes.unregister("a")
    await window.forget(timedelta(hours=1))
    shown = {pod.id: (pod.state, pod.annotation(NODE_STATE)) for pod in await window.pods()}
    assert shown == {
        pod_id("", "a", 1): (PodState.UNDEFINED, "gone"),
        pod_id("", "b", 1): (PodState.RUNNING, ""),
    }
    await window.forget(timedelta(0))
    assert [pod.id for pod in await window.pods()] == [pod_id("", "b", 1)]
    assert [image.id for image in await window.images()] == ["sha512-b"]
    assert await window.log(pod_id("", "a", 1), "app", 0) == []
    assert await window.log(pod_id("", "b", 1), "app", 0) != []


async def test_an_address_is_shown_where_the_runtime_gives_one(dock: Dock) -> None:
    for name, runtime in (("alone", "process"), ("own", "podman")):
        await dock.node(name, runtime=runtime, pool=name)
        await dock.placed(f"on-{name}", demands=Demands(pool=name))
    found = await dock.instances.page(TENANT)
    runtimes = await dock.nodes.runtimes({view.node for view in found})
    assert runtimes == {"alone": "process", "own": "podman"}
    shown = {view.id: running.instance(view, runtime=runtimes[view.node]).ip for view in found}
    assert shown["on-alone"] == ""
    assert shown["on-own"]
