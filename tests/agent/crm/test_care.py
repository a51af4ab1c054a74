"""What a resource manager does upon the controller's word, and what it says of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from agent.crm import care, crm
from agent.crm.care import ERRORS, RESUMED, STRAY, WORKS
from agent.crm.crm import Crm, cloudlet_key
from agent.crm.platform import LONGEST
from agent.crm.simulated import Simulated
from api.dialects import PROTO_BYTES
from domain.errors import Failed, Invalid
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo, ClusterInstKey
from protos.gen.edge.common_pb2 import TrackedState
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.flavor_pb2 import Flavor, FlavorKey
from protos.gen.edge.metric_pb2 import Metric
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, Notice
from tests.support.load import limit

SECONDS = 40
PLACE = cloudlet_key("tele/west")
CLUSTER = ClusterInstKey(cluster_key=ClusterKey(name="c"), cloudlet_key=PLACE, developer="acme")
APP = AppKey(name="shop", version="1")
INSTANCE = AppInstKey(app_key=APP, cluster_inst_key=CLUSTER)
STATES = dict(TrackedState.items())


class Held:
    """Mishaps as a test decides them: work is held until it is let go, or fails once."""

    def __init__(self) -> None:
        self.met: list[str] = []
        self.fails: set[str] = set()
        self.silent = False
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def meet(self, call: str) -> bool:
        if call.startswith("hear "):
            return not self.silent
        self.met.append(call)
        await self.go_on.wait()
        if (verb := call.split()[0]) in self.fails:
            self.fails.remove(verb)
            raise Failed("no")
        return True


class Bench:
    """A resource manager without a connection, and everything it would have said."""

    def __init__(self) -> None:
        self.platform, self.mishaps = Simulated(), Held()
        self.crm = Crm(PLACE, self.platform, ["nowhere:1"], self.mishaps)
        self.said: list[tuple[str, str]] = []

    def hear(self, message: Message | None, action: Any = UPDATE) -> None:
        packed = Packed()
        if message is not None:
            packed.Pack(message)
        self.crm._hear(Notice(action=action, any=packed))

    async def says(self, wanted: str) -> None:
        """Wait until it says a state, or `gone`. Earlier ones may have been passed over."""
        said = ""
        async with limit(SECONDS):
            while said != wanted:
                for notice in await self.crm.reports.next():
                    info: Any = AppInstInfo()
                    if notice.any.Is(ClusterInstInfo.DESCRIPTOR):
                        info = ClusterInstInfo()
                    notice.any.Unpack(info)
                    said = "gone" if notice.action == DELETE else TrackedState.Name(info.state)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.crm._leave_off()


def cluster(state: str, **more: Any) -> ClusterInst:
    return ClusterInst(key=CLUSTER, state=STATES[state], **more)


def instance(state: str) -> AppInst:
    return AppInst(key=INSTANCE, state=STATES[state], flavor=FlavorKey(name="small"))


async def test_a_cluster_comes_changes_and_goes(bench: Bench) -> None:
    bench.mishaps.go_on.clear()
    for asked, under_way, done in (
        ("CREATE_REQUESTED", "CREATING", "READY"),
        ("UPDATE_REQUESTED", "UPDATING", "READY"),
        ("DELETE_REQUESTED", "DELETING", "gone"),
    ):
        bench.mishaps.go_on.clear()
        bench.hear(cluster(asked))
        await bench.says(under_way)
        bench.hear(cluster(under_way))  # what comes back of its own words
        bench.mishaps.go_on.set()
        await bench.says(done)
        bench.hear(cluster("READY"))
    assert not bench.platform.clusters
    assert bench.mishaps.met == [f"{verb} cluster c" for verb in ("create", "update", "delete")]


async def test_an_app_needs_what_it_names(bench: Bench) -> None:
    for message, lacking in (
        (App(key=APP, deployment="kubernetes"), "App shop not found"),
        (cluster("READY"), "Cluster instance c not found"),
        (Flavor(key=FlavorKey(name="small")), "Flavor small not found"),
    ):
        bench.hear(instance("CREATE_REQUESTED"))
        await bench.says("CREATE_ERROR")
        info = bench.crm.reports.get(AppInstInfo, INSTANCE)
        assert info.errors[-1] == f"Create failed: {lacking}"
        bench.hear(message)
    assert len(info.errors) == 1  # each attempt begins without
    bench.hear(instance("CREATE_REQUESTED"))
    await bench.says("READY")
    info = bench.crm.reports.get(AppInstInfo, INSTANCE)
    assert (list(info.errors), list(info.runtime_info.container_ids)) == ([], ["shop-0"])


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
async def test_what_fails_is_said_with_its_reason(bench: Bench, verb: str) -> None:
    bench.mishaps.fails.add(verb)
    bench.hear(cluster(f"{verb.upper()}_REQUESTED"))
    await bench.says(f"{verb.upper()}_ERROR")
    info = bench.crm.reports.get(ClusterInstInfo, CLUSTER)
    assert list(info.errors) == [f"{verb.capitalize()} failed: no"]


@pytest.mark.parametrize("state", sorted(set(STATES.values()) - set(WORKS) - set(STRAY)))
async def test_all_else_is_not_answered(bench: Bench, state: Any) -> None:
    bench.hear(ClusterInst(key=CLUSTER, state=state))
    await asyncio.sleep(0)
    assert not bench.crm.reports.all()


@pytest.mark.parametrize(("state", "verb"), [("CREATING", "create"), ("UPDATING", "update")])
async def test_who_was_started_anew_goes_on_with_what_was_begun(
    bench: Bench, state: str, verb: str
) -> None:
    """What is there in part is completed, and not thrown away."""
    bench.mishaps.go_on.clear()
    bench.hear(cluster(state, num_nodes=3))
    await bench.says(state)
    bench.hear(cluster(state, num_nodes=3))  # what comes back of its own words
    bench.mishaps.go_on.set()
    await bench.says("READY")
    [made] = bench.platform.clusters.values()
    assert made.num_nodes == 3
    bench.hear(cluster("READY", num_nodes=3))
    assert bench.mishaps.met == [f"{verb} cluster c"]


async def test_an_app_is_gone_on_with_after_a_restart(bench: Bench) -> None:
    for message in (App(key=APP), cluster("READY"), Flavor(key=FlavorKey(name="small"))):
        bench.hear(message)
    bench.mishaps.go_on.clear()
    bench.hear(instance("CREATE_REQUESTED"))
    await bench.says("CREATING")
    await bench.crm.restart()
    bench.mishaps.go_on.set()
    bench.hear(instance("CREATING"))
    await bench.says("READY")
    assert bench.mishaps.met == ["create app shop in c"] * 2


@pytest.mark.parametrize("state", sorted(STRAY))
async def test_work_that_has_failed_is_not_begun_again(bench: Bench, state: Any) -> None:
    verb = WORKS[RESUMED[state]].verb
    bench.mishaps.fails.add(verb)
    bench.hear(ClusterInst(key=CLUSTER, state=RESUMED[state]))
    await bench.says(TrackedState.Name(STRAY[state]))
    bench.hear(ClusterInst(key=CLUSTER, state=state))
    info = bench.crm.reports.get(ClusterInstInfo, CLUSTER)
    assert info.state == STRAY[state]
    assert TrackedState.Name(state) in info.errors[-1]
    assert STRAY[state] in ERRORS
    assert bench.mishaps.met == [f"{verb} cluster c"]


async def test_a_delete_that_nobody_asked_for_again_is_done(bench: Bench) -> None:
    bench.hear(cluster("DELETING"))
    await bench.says("gone")


async def test_what_is_asked_for_meanwhile_is_done_afterwards(bench: Bench) -> None:
    bench.mishaps.go_on.clear()
    bench.hear(cluster("CREATE_REQUESTED"))
    await bench.says("CREATING")
    bench.hear(cluster("CREATE_REQUESTED"))  # after a reconnection
    bench.hear(cluster("DELETE_REQUESTED"))
    bench.mishaps.go_on.set()
    await bench.says("gone")
    assert bench.mishaps.met == ["create cluster c", "delete cluster c"]


@pytest.mark.parametrize("said", ["UPDATE_REQUESTED", "UPDATING", "READY"])
async def test_only_the_change_that_was_asked_for_last_is_confirmed(
    bench: Bench, said: str
) -> None:
    """The one before was called off while it was carried out."""
    bench.mishaps.go_on.clear()
    bench.hear(cluster("UPDATE_REQUESTED", num_nodes=2))
    await bench.says("UPDATING")
    bench.hear(cluster("READY", num_nodes=1))
    bench.hear(cluster(said, num_nodes=3))
    bench.mishaps.go_on.set()
    await bench.says("READY")
    [made] = bench.platform.clusters.values()
    assert made.num_nodes == 3
    assert bench.mishaps.met == ["update cluster c"] * 2
    bench.mishaps.go_on.clear()
    bench.hear(cluster("UPDATE_REQUESTED", num_nodes=4))
    await bench.says("UPDATING")
    bench.hear(cluster("UPDATE_REQUESTED", num_nodes=4))  # after a reconnection
    bench.mishaps.go_on.set()
    await bench.says("READY")
    assert bench.mishaps.met == ["update cluster c"] * 3


async def test_a_change_that_failed_is_taken_back_on_the_platform_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller has rolled it back, and nobody waits for it."""
    monkeypatch.setattr(care, "RESTORE_SECONDS", 0.01)
    bench.mishaps.fails = {"update"}
    bench.hear(cluster("UPDATE_REQUESTED", num_nodes=5))
    await bench.says("UPDATE_ERROR")
    await bench.platform.update_cluster(cluster("READY", num_nodes=5))  # it went on
    bench.hear(cluster("UPDATE_ERROR", num_nodes=5))  # what comes back of its own words
    bench.mishaps.fails = {"update"}
    bench.mishaps.go_on.clear()
    bench.hear(cluster("READY", num_nodes=3))
    async with limit(SECONDS):
        while True:
            await asyncio.sleep(0)
            if len(bench.mishaps.met) == 2:
                break
    assert bench.crm.reports.get(ClusterInstInfo, CLUSTER).state == STATES["UPDATE_ERROR"]
    bench.mishaps.go_on.set()
    await bench.says("READY")
    [made] = bench.platform.clusters.values()
    assert made.num_nodes == 3
    assert bench.mishaps.met == ["update cluster c"] * 3
    bench.hear(cluster("READY", num_nodes=3))
    assert bench.crm._cares[ClusterInst].busy_with == []


@pytest.mark.parametrize(("asked", "ends"), [("UPDATE", "READY"), ("DELETE", "gone")])
async def test_what_is_asked_for_meanwhile_comes_before_taking_back(
    bench: Bench, asked: str, ends: str
) -> None:
    bench.mishaps.fails = {"update"}
    bench.hear(cluster("UPDATE_REQUESTED", num_nodes=5))
    await bench.says("UPDATE_ERROR")
    bench.mishaps.fails = {"update"}
    bench.mishaps.go_on.clear()
    bench.hear(cluster("READY", num_nodes=3))
    bench.hear(cluster(f"{asked}_REQUESTED", num_nodes=3))
    bench.mishaps.go_on.set()
    await bench.says(ends)
    assert bench.mishaps.met == [*["update cluster c"] * 2, f"{asked.lower()} cluster c"]


async def test_who_was_started_anew_counts_what_runs_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crm, "MEASURE_SECONDS", 0.01)
    bench.crm._begin()
    for message in (cluster("READY"), instance("READY"), App(key=APP)):
        bench.hear(message)
    metric = Metric()
    counted: dict[str, int] = {}
    async with limit(SECONDS):
        while not counted:
            for notice in await bench.crm.reports.next():
                if notice.any.Unpack(metric):
                    counted = {val.name: val.ival for val in metric.vals}
    assert counted == {
        **{"clusters": 1, "apps": 1, "nodes": 0},
        **{"clusters_unhealthy": 0, "apps_unhealthy": 0},
    }


@pytest.mark.parametrize(("fails", "then"), [(False, "update"), (True, "create")])
async def test_who_asks_anew_for_another_size_gets_that(
    bench: Bench, fails: bool, then: str
) -> None:
    """It was deleted by force and created again between two notices. What failed of the first is
    not said of the second."""
    bench.mishaps.go_on.clear()
    bench.mishaps.fails = {"create"} if fails else set()
    bench.hear(cluster("CREATE_REQUESTED", num_nodes=1))
    await bench.says("CREATING")
    bench.hear(cluster("CREATE_REQUESTED", num_nodes=3))
    bench.mishaps.go_on.set()
    await bench.says("READY")
    assert bench.mishaps.met == ["create cluster c", f"{then} cluster c"]
    [made] = bench.platform.clusters.values()
    assert made.num_nodes == 3


async def test_who_asks_anew_for_other_ports_gets_those(bench: Bench) -> None:
    for message in (App(key=APP), cluster("READY"), Flavor(key=FlavorKey(name="small"))):
        bench.hear(message)
    bench.mishaps.go_on.clear()
    bench.hear(instance("CREATE_REQUESTED"))
    await bench.says("CREATING")
    again = instance("CREATE_REQUESTED")
    again.mapped_ports.add(internal_port=80, public_port=8080)
    bench.hear(again)
    bench.mishaps.go_on.set()
    await bench.says("READY")
    assert bench.mishaps.met == ["create app shop in c", "replace app shop in c"]


async def test_what_is_given_up_is_cleared_away(bench: Bench) -> None:
    bench.mishaps.go_on.clear()
    bench.hear(cluster("CREATE_REQUESTED"))
    await bench.says("CREATING")
    bench.hear(ClusterInst(key=CLUSTER), DELETE)
    await bench.says("gone")
    assert not bench.platform.clusters
    bench.mishaps.go_on.set()
    bench.hear(cluster("CREATE_REQUESTED"))
    await bench.says("READY")
    bench.hear(ClusterInst(key=CLUSTER), DELETE)
    await bench.says("gone")
    assert not bench.platform.clusters


async def test_what_an_earlier_start_had_made_is_cleared_away_too(bench: Bench) -> None:
    """It has said nothing of it since it was started anew."""
    await bench.platform.create_cluster(cluster("READY"))
    bench.hear(cluster("READY"))
    bench.hear(ClusterInst(key=CLUSTER), DELETE)
    await bench.says("gone")
    assert not bench.platform.clusters


async def test_an_app_does_not_outlive_the_cluster_that_goes_first(bench: Bench) -> None:
    """Of what goes in one transaction clusters are told of before apps."""
    for message in (App(key=APP), cluster("READY"), Flavor(key=FlavorKey(name="small"))):
        bench.hear(message)
    bench.hear(instance("CREATE_REQUESTED"))
    await bench.says("READY")
    bench.hear(ClusterInst(key=CLUSTER), DELETE)
    bench.hear(AppInst(key=INSTANCE), DELETE)
    await bench.says("gone")
    assert not bench.platform.apps


async def test_who_is_silent_says_nothing(bench: Bench) -> None:
    bench.mishaps.silent = True
    bench.hear(cluster("CREATE_REQUESTED"))
    async with limit(SECONDS):
        while True:
            await asyncio.sleep(0)
            if not bench.crm._cares[ClusterInst]._working:
                break
    assert not bench.crm.reports.all()


async def test_what_is_not_told_again_is_gone(bench: Bench) -> None:
    bench.hear(cluster("READY"))
    bench.hear(App(key=APP))
    bench.crm.replica.begin()
    bench.hear(App(key=APP))
    bench.hear(None, SENDALL_END)
    assert bench.crm.replica.cluster(CLUSTER) is None
    assert bench.crm.replica.app(APP) is not None


async def test_a_command_is_answered(bench: Bench) -> None:
    for message in (App(key=APP), cluster("READY"), Flavor(key=FlavorKey(name="small"))):
        bench.hear(message)
    request = ExecRequest(app_inst_key=INSTANCE, command="echo hi", offer="o")
    for wanted in ("AppInst shop not found", "there is no container of this app", ""):
        bench.hear(request)
        async with limit(SECONDS):
            [notice] = await bench.crm.reports.next()
        answer = ExecRequest()
        notice.any.Unpack(answer)
        assert (answer.offer, answer.err) == ("o", wanted)
        if "AppInst" in wanted:
            bench.hear(instance("READY"))
        else:
            bench.platform.apps[bench.platform.name(instance("READY"))] = ("shop-0",)
    assert json.loads(answer.answer) == {
        "exit_code": 0,
        "stdout": "hi\n",
        "stderr": "",
        "cut": False,
    }
    open_quote = "the command cannot be read: No closing quotation: close its quotes"
    for command, err in (("echo '", open_quote), ("echo " + "\1" * (LONGEST + 1), "")):
        request.command = command
        bench.hear(request)
        async with limit(SECONDS):
            [notice] = await bench.crm.reports.next()
        notice.any.Unpack(answer)
        assert answer.err == err
    told = json.loads(answer.answer)
    assert (len(told["stdout"]), told["cut"]) == (LONGEST, True)
    assert len(answer.answer) < PROTO_BYTES, "one larger would end the stream"


def test_a_cloudlet_has_an_operator() -> None:
    assert CloudletKey(operator_key=PLACE.operator_key, name="west") == PLACE
    for text in ("west", "/west", "tele/"):
        with pytest.raises(Invalid):
            cloudlet_key(text)
