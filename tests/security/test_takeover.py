"""Nobody takes over what another developer runs, however names are chosen: neither by keys whose
names once were the same, nor by something that stands under a name that is theirs."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent.crm import names
from agent.crm.crm import cloudlet_key
from agent.crm.kaas import Kaas
from agent.crm.nodes import Nodes
from agent.crm.platform import AppOrder
from agent.crm.replica import ident
from agent.crm.simulated import RESOURCES
from domain.errors import Conflict, Failed
from domain.naming import is_dns_label
from domain.placement import Amounts
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstKey
from protos.gen.edge.common_pb2 import CREATE_REQUESTED, READY
from protos.gen.edge.developer_pb2 import DeveloperKey
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.flavor_pb2 import Flavor
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from protos.gen.ops.clusters_pb2 import ClaimClusterRequest, ListClusterOwnersRequest
from protos.gen.ops.clusters_pb2_grpc import ClustersStub
from protos.gen.ops.instances_pb2 import (
    ClaimInstanceRequest,
    GetInstanceRequest,
    ListInstancesRequest,
)
from protos.gen.ops.instances_pb2_grpc import InstancesStub
from tests.api.caller import Caller, refused
from tests.api.conftest import addresses, api, caller, settings
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.workflows.harbour import Harbour, asked
from tests.workflows.test_apps_on_nodes import managed
from tests.workflows.test_instances import Opening, opened
from tests.workflows.test_nodes import Node, nodes

__all__ = ["addresses", "api", "caller", "opened", "settings"]

PLACE = cloudlet_key("tele/west")
LARGE = Amounts(cpu=8000, memory=8000, disk=100)
DEVELOPERS = "acme", "evil"
TRIES = 1 << 19
OWNED = (("windlass-owner", "one"),)


def key(developer: str, version: str, app: str = "shop") -> AppInstKey:
    return AppInstKey(
        app_key=AppKey(developer_key=DeveloperKey(name=developer), name=app, version=version),
        cluster_inst_key=ClusterInstKey(
            cluster_key=ClusterKey(name="blue"), cloudlet_key=PLACE, developer=developer
        ),
    )


@pytest.fixture(scope="module")
def colliding() -> tuple[AppInstKey, AppInstKey]:
    """Keys of two developers whose digests begin with the same 32 bits, which is what an attacker
    who may choose versions finds in a second."""
    found: dict[bytes, str] = {}
    theirs, mine = (ident(key(developer, "v000000")) for developer in DEVELOPERS)
    for number in range(TRIES):
        version = f"v{number:06x}"
        digest = hashlib.sha256(theirs.replace(b"v000000", version.encode())).digest()
        found[digest[:4]] = version
    for number in count():
        version = f"v{number:06x}"
        digest = hashlib.sha256(mine.replace(b"v000000", version.encode())).digest()
        if digest[:4] in found:
            return key("acme", found[digest[:4]]), key("evil", version)
    raise AssertionError("unreachable")


def test_keys_that_shared_a_name_share_none_now(
    colliding: tuple[AppInstKey, AppInstKey],
) -> None:
    theirs, mine = colliding
    assert names.earlier(AppInst(key=theirs)) == names.earlier(AppInst(key=mine))
    given = [names.app(each) for each in colliding]
    assert given[0] != given[1]
    assert all(map(is_dns_label, given))
    assert all(len(name.rpartition("-")[2]) * 5 >= 128 for name in given)
    assert len({names.owner(AppInst(key=each)) for each in colliding}) == 2
    assert not names.only_makers([AppInst(key=each) for each in colliding])


@asynccontextmanager
async def two_developers(
    opened: Opening, folder: Path, pair: tuple[AppInstKey, AppInstKey]
) -> AsyncIterator[tuple[Harbour, Edge, Node]]:
    """A cloudlet on a node of ours where both have an app and a cluster."""
    async with (
        opened(restart="always") as place,
        nodes(place, folder, LARGE, a="") as (node,),
        managed(place) as edge,
    ):
        for each in pair:
            developer, version = each.app_key.developer_key.name, each.app_key.version
            described = {"deployment": "docker", "image_path": "builtin:ticker"}
            shop = stubs.app("shop", developer, version, access_ports="", **described)
            await edge("CreateApp", shop)
            cluster = ClusterInst(key=each.cluster_inst_key, deployment="docker")
            cluster.flavor.name = "small"
            await edge("CreateClusterInst", cluster)
        yield place, edge, node


async def ran(edge: Edge, key: AppInstKey, command: str = "echo here") -> ExecRequest:
    [answer] = await edge("RunCommand", ExecRequest(app_inst_key=key, command=command), timeout=60)
    return answer  # type: ignore[no-any-return]


async def containers(edge: Edge, key: AppInstKey) -> list[str]:
    [shown] = await edge("ShowAppInst", AppInst(key=key))
    return list(shown.runtime_info.container_ids)


async def test_who_grinds_a_collision_reaches_what_is_their_own(
    opened: Opening, tmp_path: Path, colliding: tuple[AppInstKey, AppInstKey]
) -> None:
    """Neither RunCommand nor DeleteAppInst reaches the other developer's container."""
    theirs, mine = colliding
    async with two_developers(opened, tmp_path, colliding) as (_, edge, node):
        for each in colliding:
            told = await edge("CreateAppInst", AppInst(key=each))
            assert told[-1].message == "Created successfully"
        [victim], [attacker] = [await containers(edge, each) for each in colliding]
        assert victim != attacker
        assert await node.runs() == 2
        refused = await edge.refused(
            "RunCommand", ExecRequest(app_inst_key=mine, command="ls", container_id=victim)
        )
        assert victim not in refused.message.replace(f"container {victim}", "")
        await edge("DeleteAppInst", AppInst(key=mine))
        assert await node.runs() == 1
        assert await containers(edge, theirs) == [victim]
        assert "here" in (await ran(edge, theirs)).answer


async def test_what_stands_under_a_name_already_is_not_taken_for_ones_own(
    opened: Opening, tmp_path: Path, colliding: tuple[AppInstKey, AppInstKey]
) -> None:
    """It is refused with a plain reason, stays, and is not named to the developer."""
    _, mine = colliding
    name = names.app(mine)
    async with two_developers(opened, tmp_path, colliding) as (place, edge, node):
        other = place.create(asked(name))
        await other.until("SCHEDULING", "SCHEDULED", "STARTING", "RUNNING")
        told = await edge.refused("CreateAppInst", AppInst(key=mine))
        assert "belongs to another owner" in told.message
        order = AppOrder(AppInst(key=mine), App(deployment="docker"), Flavor(), None)
        platform = Nodes(PLACE, place.address, "", RESOURCES)
        with pytest.raises(Conflict, match="another owner"):
            await platform.run(order, "", "ls")
        await platform.delete_app(order)
        await platform.remove(name)
        assert await platform.carries() == []
        await platform.close()
        assert await node.runs() == 1
        other.hang_up()


async def test_what_an_earlier_release_made_is_kept_and_not_made_twice(
    opened: Opening, tmp_path: Path, colliding: tuple[AppInstKey, AppInstKey]
) -> None:
    """It is recognised by the only key that it can have been made for. Where two can, it is neither
    used nor removed."""
    theirs, mine = (AppInst(key=each, state=READY) for each in colliding)
    name = names.earlier(theirs)
    described = App(key=theirs.key.app_key, deployment="docker", image_path="builtin:ticker")
    order = AppOrder(theirs, described, Flavor(vcpus=1, ram=64, disk=1), None)
    async with opened(restart="always") as place, nodes(place, tmp_path, LARGE, a="") as (node,):
        old = place.create(asked(name))
        await old.until("SCHEDULING", "SCHEDULED", "STARTING", "RUNNING")
        old.hang_up()
        view = InstancesStub(place.channel)
        platform = Nodes(PLACE, place.address, "", RESOURCES)
        for known in ([theirs, mine], [], [AppInst(key=theirs.key, state=CREATE_REQUESTED)]):
            await platform.adopt(known)
            assert (await view.Get(GetInstanceRequest(id=name))).owner == ""
        await platform.adopt([theirs, mine])
        assert await platform.carries() == []
        await platform.remove(name)
        assert await node.runs() == 1

        await platform.adopt([theirs])
        assert platform.name(theirs) == name
        assert (await view.Get(GetInstanceRequest(id=name))).owner == names.owner(theirs)
        again = Nodes(PLACE, place.address, "", RESOURCES)  # after a restart, whoever is there now
        await again.adopt([mine, theirs])
        assert await again.create_app(order) == [name]
        assert await again.carries() == [name]
        assert (await again.run(order, "", "echo here")).stdout == "here\n"
        assert await node.runs() == 1
        with pytest.raises(Failed):
            await again.run(order._replace(instance=mine), "", "ls")
        await again.delete_app(order._replace(instance=mine))
        assert await node.runs() == 1
        await again.delete_app(order)
        assert not (await view.List(ListInstancesRequest())).instances
        [made] = await again.create_app(order)
        assert made == names.app(theirs.key)
        await again.delete_app(order)
        for each in (platform, again):
            await each.close()


async def test_an_owner_is_recorded_once(caller: Caller) -> None:
    """By the API itself, of instances and of clusters. Nobody changes it afterwards."""
    made, view = ClusterStub(caller.channel), ClustersStub(caller.channel)
    instances = InstancesStub(caller.channel)
    for name, beside in (("web", OWNED), ("old", ())):
        creating = InstanceServiceStub(caller.channel).Create(asked(name), metadata=beside)
        await anext(aiter(creating))
        creating.cancel()
        plane = kaas.ControlPlaneMachineSpec()
        order = kaas.CreateClusterMsg(name=name, control_plane_nodes=plane)
        await made.CreateCluster(order, metadata=beside)
    shown = await view.ListOwners(ListClusterOwnersRequest())
    assert [(each.name, each.owner) for each in shown.clusters] == [("old", ""), ("web", "one")]
    for claim, request in (
        (instances.Claim, ClaimInstanceRequest),
        (view.Claim, ClaimClusterRequest),
    ):
        for name, owner, code in (
            ("web", "another", "FAILED_PRECONDITION"),
            ("web", "", "INVALID_ARGUMENT"),
            ("web", "one\n", "INVALID_ARGUMENT"),
            ("web", "x" * 2001, "INVALID_ARGUMENT"),
            ("none", "one", "NOT_FOUND"),
            ("web", "one", ""),
            ("old", "another", ""),
            ("old", "another", ""),
            ("old", "one", "FAILED_PRECONDITION"),
        ):
            said: Any = request(owner=owner)
            setattr(said, "id" if isinstance(said, ClaimInstanceRequest) else "name", name)
            answer = claim(said)
            if code:
                assert (await refused(answer)).code.name == code, (name, owner)
            else:
                assert (await answer).owner == owner


async def test_a_cluster_of_another_owner_is_left_alone(caller: Caller, addresses: Any) -> None:
    """Its kubeconfig is not asked for, and it is neither scaled nor deleted."""
    theirs = ClusterInst(key=key("acme", "1").cluster_inst_key, deployment="kubernetes")
    mine = ClusterInst(key=key("evil", "1").cluster_inst_key, deployment="kubernetes")
    platform = Kaas(PLACE, addresses[0], RESOURCES, look_seconds=0.01)
    made, view = ClusterStub(caller.channel), ClustersStub(caller.channel)
    plane = kaas.ControlPlaneMachineSpec()
    for name, owner in (
        (names.cluster(mine.key), "a stranger"),
        (names.earlier(theirs), ""),
        ("by-hand", ""),
    ):
        order = kaas.CreateClusterMsg(name=name, control_plane_nodes=plane)
        await made.CreateCluster(order, metadata=(("windlass-owner", owner),) if owner else ())
    for verb in (platform.create_cluster, platform.update_cluster):
        with pytest.raises(Conflict, match="another owner"):
            await verb(mine)
    described = App(deployment="kubernetes")
    shop = AppOrder(AppInst(key=key("evil", "1")), described, Flavor(), mine)
    for work in (platform.create_app(shop), platform.run(shop, "", "ls")):
        with pytest.raises(Conflict, match="another owner"):
            await work
    await platform.delete_app(shop)
    await platform.delete_cluster(mine)
    await platform.remove("by-hand")
    assert len((await view.ListOwners(ListClusterOwnersRequest())).clusters) == 3

    await platform.adopt([theirs, mine])
    assert platform.name(theirs) == names.earlier(theirs)
    owners = {
        each.name: each.owner
        for each in (await view.ListOwners(ListClusterOwnersRequest())).clusters
    }
    assert owners[names.earlier(theirs)] == names.owner(theirs)
    assert await platform.carries() == [names.earlier(theirs)]
    await platform.delete_cluster(mine)
    assert platform.name(mine) == names.cluster(mine.key)
    await platform.close()
