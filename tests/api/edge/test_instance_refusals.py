"""Every refusal that speaks of instances: provoked over the wire, and read to the byte, in both
modes. All of a mode share one server and one site, since a refusal changes nothing."""

from typing import Any, NamedTuple

import grpc
import pytest

from api.errors import CODES
from domain.refusal import Refusal
from protos.gen.edge.flavor_pb2 import FlavorKey
from tests.api.edge.grounds import DEDICATED, NOBODY_ASKED
from tests.api.edge.stubs import Edge, app, appinst, cloudlet, clusterinst, flavor, template

DEFAULT = {"place": "default", "owner": "developer"}
BLUE = (
    '{"cluster_key":{"name":"busy"},"cloudlet_key":{"operator_key":{"name":"tele"},'
    '"name":"west"},"developer":"acme"}'
)


class Case(NamedTuple):
    method: str
    request: Any
    text: str


CASES: dict[Refusal, Case] = {
    Refusal.ENUM_UNKNOWN: Case(
        "CreateClusterInst", clusterinst("new", ip_access=9), "invalid IpAccess"
    ),
    Refusal.KEY_TAKEN: Case("CreateClusterInst", clusterinst(), "Key already exists"),
    Refusal.KEY_UNKNOWN: Case("DeleteAppInst", appinst("dock"), "Key not found"),
    Refusal.CLOUDLET_NOT_READY: Case(
        *("CreateClusterInst", clusterinst(key={"place": "off", "developer": ""})),
        'Cloudlet operator_key:<name:"tele" > name:"off"  not ready, '
        "state is CLOUDLET_STATE_OFFLINE",
    ),
    Refusal.CLUSTER_NAME: Case("CreateClusterInst", clusterinst("a_b"), "Invalid cluster name"),
    Refusal.CLUSTER_RESERVED: Case(
        *("CreateClusterInst", clusterinst("autocluster1")),
        'Cluster name prefix "autocluster" is reserved',
    ),
    Refusal.CLOUDLET_UNKNOWN: Case(
        "CreateClusterInst", clusterinst(key={"place": "nowhere"}), "Specified cloudlet not found"
    ),
    Refusal.CLUSTERINST_NO_DEVELOPER: Case(
        *("CreateClusterInst", clusterinst("", key={"developer": ""})),
        "Developer cannot be empty",
    ),
    Refusal.CLUSTERINST_NO_CLOUDLET: Case(
        *("CreateClusterInst", clusterinst("", key={"place": "", "owner": ""}, **NOBODY_ASKED)),
        "Cloudlet name cannot be empty",
    ),
    Refusal.CLUSTERINST_NO_OPERATOR: Case(
        *("CreateClusterInst", clusterinst("", key={"owner": ""}, **NOBODY_ASKED)),
        "Operator name cannot be empty",
    ),
    Refusal.CLUSTERINST_NO_NAME: Case(
        "CreateClusterInst", clusterinst(""), "Cluster name cannot be empty"
    ),
    Refusal.CLUSTERINST_VM: Case(
        *("CreateClusterInst", clusterinst("new", deployment="vm")),
        "ClusterInst is not needed for deployment type vm, just create an AppInst directly",
    ),
    Refusal.CLUSTERINST_DEPLOYMENT: Case(
        *("CreateClusterInst", clusterinst("new", deployment="swarm")),
        "Invalid deployment type swarm for ClusterInst",
    ),
    Refusal.CLUSTERINST_MASTERS: Case(
        *("CreateClusterInst", clusterinst("new", num_masters=2)),
        "NumMasters cannot be greater than 1",
    ),
    Refusal.CLUSTERINST_NO_NODES: Case(
        *("CreateClusterInst", clusterinst("new", num_nodes=0)),
        "Zero NumNodes not supported yet",
    ),
    Refusal.CLUSTERINST_DOCKER_COUNTS: Case(
        *("CreateClusterInst", clusterinst("new", deployment="docker")),
        "NumMasters and NumNodes not applicable for deployment type docker",
    ),
    Refusal.CLUSTERINST_DOCKER_SHARED: Case(
        "CreateClusterInst",
        clusterinst("new", deployment="docker", num_masters=0, num_nodes=0, ip_access=3),
        "IpAccess must be dedicated for deployment type docker",
    ),
    Refusal.CLUSTERINST_NO_FLAVOR: Case(
        *("CreateClusterInst", clusterinst("new", flavor=None)),
        "No Flavor specified and no default Flavor for Cluster",
    ),
    Refusal.CLUSTERINST_FLAVOR: Case(
        *("CreateClusterInst", clusterinst("new", flavor=FlavorKey(name="x"))),
        "flavor x not found",
    ),
    Refusal.CLUSTERINST_NO_FIT: Case(
        *("CreateClusterInst", clusterinst("new", flavor=FlavorKey(name="vast"))),
        "no suitable platform flavor for vast",
    ),
    Refusal.CLUSTERINST_NO_INFO: Case(
        *("CreateClusterInst", clusterinst(key={"place": "mute"}, **NOBODY_ASKED)),
        "no resource information for the cloudlet",
    ),
    Refusal.CLUSTERINST_NO_IP: Case(
        *("CreateClusterInst", clusterinst(key={"place": "tiny"}, ip_access=DEDICATED)),
        "No more dynamic IPs left",
    ),
    Refusal.CLUSTERINST_BUSY: Case(
        "DeleteClusterInst", clusterinst("busy"), "ClusterInst busy, cannot delete"
    ),
    Refusal.CLUSTERINST_NOTHING: Case(
        *("UpdateClusterInst", clusterinst(fields=["6"])),
        "nothing specified to update",
    ),
    Refusal.CLUSTERINST_FIXED: Case(
        *("UpdateClusterInst", clusterinst(fields=["14", "13"])),
        "some specified fields cannot be modified",
    ),
    Refusal.CLUSTERINST_SINGLE: Case(
        *("UpdateClusterInst", clusterinst("sole", fields=["14"])),
        "cannot modify single node clusters",
    ),
    Refusal.CLUSTERINST_NOT_READY: Case(
        "UpdateClusterInst", clusterinst("busy", fields=["14"]), "cluster is not ready"
    ),
    Refusal.CLUSTERINST_IN_USE: Case(
        "DeleteClusterInst", clusterinst(), "ClusterInst in use by Application Instance"
    ),
    Refusal.CLUSTER_IN_USE: Case(
        "DeleteCluster", template("blue"), "Cluster in use by ClusterInst"
    ),
    Refusal.FLAVOR_IN_INSTANCE: Case(
        "DeleteFlavor", flavor("lent"), "Flavor in use by App Instance"
    ),
    Refusal.FLAVOR_IN_CLUSTER: Case("DeleteFlavor", flavor("worn"), "Flavor in use by Cluster"),
    Refusal.FLAVOR_IN_USE: Case("DeleteFlavor", flavor("pinned"), "Flavor in use by App"),
    Refusal.CLOUDLET_IN_USE: Case(
        "DeleteCloudlet", cloudlet(), "Cloudlet in use by static Application Instance"
    ),
    Refusal.CLOUDLET_HAS_CLUSTER: Case(
        "DeleteCloudlet", cloudlet("lone"), "Cloudlet in use by static Cluster Instance"
    ),
    Refusal.APP_IN_USE: Case(
        "DeleteApp", app(), "Application in use by static Application Instance"
    ),
    Refusal.APP_HAS_INSTANCES: Case(
        *("UpdateApp", app(access_ports="tcp:81", fields=["7"])),
        "access_ports cannot be changed while the app has instances",
    ),
    Refusal.APPINST_APP: Case("CreateAppInst", appinst("none"), "Specified app not found"),
    Refusal.APPINST_CLUSTER: Case(
        "CreateAppInst", appinst(cluster="none"), "Specified ClusterInst not found"
    ),
    Refusal.APPINST_DEVELOPER: Case(
        *("CreateAppInst", appinst(key={"developer": "other"})),
        "Developer name mismatch between app: acme and cluster inst: other",
    ),
    Refusal.APPINST_URI: Case(
        *("CreateAppInst", appinst("dock", "sole", uri="x")),
        "uri is not allowed, it is given by the controller",
    ),
    Refusal.APPINST_NO_URI: Case(
        *("CreateAppInst", appinst(cluster="", key=DEFAULT)),
        "uri is required on the default cloudlet",
    ),
    Refusal.APPINST_FLAVOR: Case(
        *("CreateAppInst", appinst("dock", "sole", flavor=FlavorKey(name="x"))),
        "Flavor x not found",
    ),
    Refusal.APPINST_CLUSTER_NOT_READY: Case(
        "CreateAppInst", appinst(cluster="busy"), f"ClusterInst {BLUE} not ready"
    ),
    Refusal.APPINST_DEPLOYMENT: Case(
        *("CreateAppInst", appinst("dock")),
        "Cannot deploy docker App into kubernetes ClusterInst",
    ),
    Refusal.APPINST_NO_PORTS: Case(
        *("CreateAppInst", appinst("shell", "crammed", key={"place": "crammed"})),
        "no free external ports",
    ),
    Refusal.APPINST_LOCATION: Case(
        *("UpdateAppInst", appinst(fields=["3.1"])), "location is inherited from the cloudlet"
    ),
    Refusal.APPINST_UPDATE: Case(
        "UpdateAppInst", appinst(fields=["12"]), "Update app instance not supported yet"
    ),
    Refusal.APPINST_BUSY: Case("DeleteAppInst", appinst("worn"), "AppInst busy, cannot delete"),
    Refusal.CLOUDLET_IPS_IN_USE: Case(
        *("UpdateCloudlet", cloudlet("crowd", num_dynamic_ips=1, fields=["8"])),
        "Cannot specify fewer dynamic IPs than are in use",
    ),
}

ORDER: list[tuple[str, Any, Refusal]] = [
    (
        "CreateClusterInst",
        clusterinst("", key={"place": "", "owner": "", "developer": ""}),
        Refusal.CLOUDLET_NOT_READY,
    ),
    (
        "CreateClusterInst",
        clusterinst("", key={"developer": ""}, deployment="vm"),
        Refusal.CLUSTERINST_NO_DEVELOPER,
    ),
    ("CreateClusterInst", clusterinst("a_b", num_masters=2), Refusal.CLUSTERINST_MASTERS),
    ("CreateClusterInst", clusterinst(flavor=FlavorKey(name="x")), Refusal.KEY_TAKEN),
    ("CreateAppInst", appinst("none", key={"place": "off"}), Refusal.CLOUDLET_NOT_READY),
    ("CreateAppInst", appinst("_", key={"developer": "other"}), Refusal.APP_NAME),
    ("CreateAppInst", appinst(uri="x"), Refusal.KEY_TAKEN),
    ("CreateAppInst", appinst("none", "none", uri="x"), Refusal.APPINST_APP),
    ("DeleteClusterInst", clusterinst("none", key={"place": "off"}), Refusal.CLOUDLET_NOT_READY),
]
"""Where several things are wrong, the first in the contract's order is told."""


@pytest.mark.parametrize("refusal", CASES, ids=lambda refusal: refusal.name)
async def test_says_no_to_the_byte(refusal: Refusal, legacy: bool, site: Edge) -> None:
    case = CASES[refusal]
    told = await site.refused(case.method, case.request)
    assert (told.message, told.reason) == (case.text, refusal.name)
    assert told.code is (grpc.StatusCode.UNKNOWN if legacy else CODES[refusal.kind])


@pytest.mark.parametrize(("method", "request_", "refusal"), ORDER)
async def test_the_first_that_is_wrong_is_told(
    method: str, request_: Any, refusal: Refusal, site: Edge
) -> None:
    assert (await site.refused(method, request_)).reason == refusal.name
