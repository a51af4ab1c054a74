"""The order of checks, which decides what a client is told: everything is wrong at first, and is
put right piece by piece."""

from collections.abc import Callable
from typing import Any

from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.app_pb2 import IMAGE_TYPE_DOCKER
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import IP_ACCESS_SHARED, IP_SUPPORT_STATIC
from protos.gen.edge.flavor_pb2 import FlavorKey
from tests.api.edge.grounds import DEDICATED, NOBODY_ASKED
from tests.api.edge.stubs import Edge, app, appinst, at, cloudlet, clusterinst, flavor

APP: list[tuple[str, dict[str, Any]]] = [
    ("APP_NAME", {"name": "shop"}),
    ("APP_VERSION", {"version": "1.0"}),
    ("DEVELOPER_NAME", {"owner": "acme"}),
    ("APP_IMAGE_TYPE", {"image_type": IMAGE_TYPE_DOCKER}),
    ("PORT_FORMAT", {"access_ports": "tcp:1"}),
    ("APP_PUBLIC_KEY", {"auth_public_key": ""}),
    ("APP_DEPLOYMENT", {"deployment": "vm"}),
    ("APP_DEPLOYMENT_IMAGE", {"deployment": ""}),
    ("APP_CONFIG", {"config": ""}),
    ("APP_GENERATOR", {"deployment_generator": ""}),
    ("APP_ANDROID", {"android_package_name": ""}),
    ("APP_FLAVOR", {"default_flavor": FlavorKey(name="small")}),
]
WRONG_APP = {
    **{"owner": "", "name": "", "version": "", "image_type": 9, "access_ports": "x"},
    **{"auth_public_key": "x", "deployment": "x", "config": "x", "deployment_generator": "x"},
    **{"android_package_name": "com.x", "default_flavor": FlavorKey(name="none")},
}

CLOUDLET: list[tuple[str, dict[str, Any]]] = [
    ("CLOUDLET_IPS_STATIC", {"ip_support": 0}),
    ("CLOUDLET_NO_IP", {"num_dynamic_ips": 1}),
    ("CLOUDLET_NO_LOCATION", {"location": at(91, 181)}),
    ("OPERATOR_NAME", {"owner": "tele"}),
    ("CLOUDLET_NAME", {"name": "west"}),
    ("CLOUDLET_LATITUDE", {"location": at(90, 181)}),
    ("CLOUDLET_LONGITUDE", {"location": at(90, -180)}),
]
WRONG_CLOUDLET = {
    **{"name": "", "owner": "", "ip_support": IP_SUPPORT_STATIC, "num_dynamic_ips": 0},
    "location": at(0, 0),
}

BAD = "_bad"

CLUSTERINST: list[tuple[str, dict[str, Any]]] = [
    ("CLOUDLET_NOT_READY", NOBODY_ASKED),
    ("CLUSTERINST_NO_DEVELOPER", {"developer": "acme"}),
    ("CLUSTERINST_NO_CLOUDLET", {"place": BAD}),
    ("CLUSTERINST_NO_OPERATOR", {"owner": BAD}),
    ("CLUSTERINST_NO_NAME", {"name": "a_b"}),
    ("CLUSTERINST_VM", {"deployment": "swarm"}),
    ("CLUSTERINST_DEPLOYMENT", {"deployment": "docker"}),
    ("CLUSTERINST_DOCKER_COUNTS", {"num_masters": 0}),
    ("CLUSTERINST_DOCKER_SHARED", {"deployment": "", "num_masters": 2}),
    ("CLUSTERINST_MASTERS", {"num_masters": 1}),
    ("CLUSTERINST_NO_NODES", {"num_nodes": 1, "ip_access": DEDICATED}),
    ("CLUSTER_NAME", {"name": "autocluster1"}),
    ("OPERATOR_NAME", {"owner": "tele"}),
    ("CLOUDLET_NAME", {"place": "none"}),
    ("CLUSTER_RESERVED", {"name": "new"}),
    ("CLOUDLET_UNKNOWN", {"place": "mute"}),
    ("CLUSTERINST_NO_INFO", {"place": "tiny"}),
    ("CLUSTERINST_NO_FLAVOR", {"flavor": FlavorKey(name="none")}),
    ("CLUSTERINST_FLAVOR", {"flavor": FlavorKey(name="vast")}),
    ("CLUSTERINST_NO_FIT", {"flavor": FlavorKey(name="small")}),
    ("CLUSTERINST_NO_IP", {}),
]
WRONG_CLUSTERINST: dict[str, Any] = {
    **{"name": "", "place": "", "owner": "", "developer": "", "deployment": "vm"},
    **{"num_masters": 2, "num_nodes": 0, "ip_access": IP_ACCESS_SHARED, "flavor": None},
}

APPINST: list[tuple[str, dict[str, Any]]] = [
    ("CLOUDLET_NOT_READY", NOBODY_ASKED),
    ("APP_NAME", {"name": "none"}),
    ("APP_VERSION", {"version": "1.0"}),
    ("DEVELOPER_NAME", {"maker": "acme"}),
    ("APPINST_DEVELOPER", {"developer": "acme"}),
    ("CLUSTER_NAME", {"cluster": ""}),
    ("OPERATOR_NAME", {"owner": "tele"}),
    ("CLOUDLET_NAME", {"place": "none"}),
    ("CLOUDLET_UNKNOWN", {"place": "west"}),
    ("CLUSTER_NAME", {"cluster": "none"}),
    ("APPINST_APP", {"name": "dock"}),
    ("APPINST_CLUSTER", {"cluster": "busy"}),
    ("APPINST_URI", {"uri": ""}),
    ("APPINST_FLAVOR", {"flavor": FlavorKey(name="small")}),
    ("APPINST_CLUSTER_NOT_READY", {"cluster": "crammed", "place": "crammed"}),
    ("APPINST_DEPLOYMENT", {"name": "shell"}),
    ("APPINST_NO_PORTS", {}),
]
WRONG_APPINST: dict[str, Any] = {
    **{"maker": BAD, "name": BAD, "version": BAD, "developer": "other", "cluster": "a_b"},
    **{"owner": BAD, "place": BAD, "uri": "x", "flavor": FlavorKey(name="none")},
}


KEY = ("place", "owner", "developer")


def located(name: str, **said: Any) -> ClusterInst:
    key = {part: said.pop(part) for part in KEY}
    return clusterinst(name, key=key, **said)


def installed(name: str, maker: str, version: str, cluster: str, **said: Any) -> AppInst:
    key = {part: said.pop(part) for part in KEY}
    made = appinst(name, cluster, key=key, **said)
    made.key.app_key.CopyFrom(app(name, maker, version).key)
    return made


async def cured(
    edge: Edge,
    method: str,
    make: Callable[..., Any],
    wrong: dict[str, Any],
    cures: list[tuple[str, dict[str, Any]]],
) -> dict[str, Any]:
    """Cure one thing after the other. What is left, all that is seen to be wrong being cured."""
    said = dict(wrong)
    for reason, cure in cures:
        assert (await edge.refused(method, make(**said))).reason == reason
        said |= cure
    return said


async def put_right(
    edge: Edge,
    method: str,
    make: Callable[..., Any],
    wrong: dict[str, Any],
    cures: list[tuple[str, dict[str, Any]]],
) -> None:
    """Cure everything; at the end only the key is in the way, then nothing."""
    said = await cured(edge, method, make, wrong, cures)
    await edge(method, make(**said))
    assert (await edge.refused(method, make(**said))).reason == "KEY_TAKEN"


async def test_an_app_is_looked_at_in_order(edge: Edge) -> None:
    await edge("CreateFlavor", flavor())
    await edge("CreateApp", app("first", android_package_name="com.x"))
    await put_right(edge, "CreateApp", app, WRONG_APP, APP)


async def test_a_cloudlet_is_looked_at_in_order(edge: Edge) -> None:
    await put_right(edge, "CreateCloudlet", cloudlet, WRONG_CLOUDLET, CLOUDLET)


async def test_a_cluster_is_looked_at_in_order(site: Edge) -> None:
    await cured(site, "CreateClusterInst", located, WRONG_CLUSTERINST, CLUSTERINST)


async def test_an_instance_is_looked_at_in_order(site: Edge) -> None:
    await cured(site, "CreateAppInst", installed, WRONG_APPINST, APPINST)


async def test_a_changed_cloudlet_is_looked_at_before_it_is_looked_for(edge: Edge) -> None:
    every = ["5", "6", "8"]
    for reason, given in (
        ("CLOUDLET_FEW_IPS", cloudlet(num_dynamic_ips=0, location=at(0, 0), fields=every)),
        ("CLOUDLET_LATITUDE_ZERO", cloudlet(location=at(0, 0), ip_support=9, fields=every)),
        ("CLOUDLET_LONGITUDE_ZERO", cloudlet(location=at(91, 0), ip_support=9, fields=every)),
        ("CLOUDLET_LATITUDE", cloudlet(location=at(91, 181), ip_support=9, fields=every)),
        ("CLOUDLET_LONGITUDE", cloudlet(location=at(9, 181), ip_support=9, fields=every)),
        ("CLOUDLET_IP_SUPPORT", cloudlet(ip_support=9, fields=every)),
        ("KEY_UNKNOWN", cloudlet(ip_support=IP_SUPPORT_STATIC, fields=every)),
    ):
        assert (await edge.refused("UpdateCloudlet", given)).reason == reason
