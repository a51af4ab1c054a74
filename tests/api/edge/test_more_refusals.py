"""Refusals that are come by in more than one way, or say more than one thing: each of them over the
wire, to the byte, in both modes. What is refused by one way alone stands in `test_refusals.py` and
`test_instance_refusals.py`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import pytest

from api.errors import CODES
from domain.refusal import Refusal
from protos.gen.edge import app_pb2, common_pb2
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.flavor_pb2 import FlavorKey
from tests.api.edge.grounds import NOBODY_ASKED, VM
from tests.api.edge.stubs import (
    Edge,
    app,
    appinst,
    at,
    cloudlet,
    clusterinst,
    developer,
    flavor,
    info,
    operator,
    template,
)


class Way(NamedTuple):
    refusal: Refusal
    text: str
    method: str
    request: Any


BAD = "_bad"
NOWHERE: dict[str, Any] = {"key": {"place": "nowhere"}}
NO_KEY: dict[str, Any] = {"key": {"place": "", "owner": "", "developer": ""}}
UNREADY = {"off": "OFFLINE", "dim": "UNKNOWN", "mute": "NOT_PRESENT", 'w"x\\': "NOT_PRESENT"}
FEW_IPS = "Cannot specify less than one dynamic IP unless Ip Support Static is specified"
WRITTEN = {'w"x\\': r"w\"x\\"}
"""Names that do not stand in texts as they are."""


def taken(method: str, request: Any) -> Way:
    return Way(Refusal.KEY_TAKEN, "Key already exists", method, request)


def unknown(method: str, request: Any) -> Way:
    return Way(Refusal.KEY_UNKNOWN, "Key not found", method, request)


def unready(key: str, state: str, method: str, request: Any) -> Way:
    text = f"Cloudlet {key} not ready, state is CLOUDLET_STATE_{state}"
    return Way(Refusal.CLOUDLET_NOT_READY, text, method, request)


def ports(method: str, written: str, refusal: Refusal, text: str) -> Way:
    return Way(refusal, text, method, app(access_ports=written, fields=["7"]))


def in_place(make: Callable[..., Any]) -> Callable[..., Any]:
    """Made by parts of its key."""

    def made(name: str, fields: list[str], **key: str) -> Any:
        return make(name, key=key, fields=fields)

    return made


def parsed(number: str, why: str) -> str:
    return (
        f'Failed to convert port {number} to integer: strconv.ParseInt: parsing "{number}": {why}'
    )


KEYS = [
    taken("CreateDeveloper", developer()),
    taken("CreateFlavor", flavor()),
    taken("CreateCluster", template("blue")),
    taken("CreateCloudlet", cloudlet()),
    taken("CreateApp", app()),
    taken("CreateClusterInst", clusterinst("busy")),
    taken("CreateAppInst", appinst()),
    taken("CreateAppInst", appinst("worn")),
    *(
        unknown(f"{verb}{noun}", make("none", fields=[field]))
        for noun, make, field in (
            *(("Developer", developer, "6"), ("Operator", operator, "2")),
            *(("Cloudlet", cloudlet, "4"), ("App", app, "14")),
            ("ClusterInst", clusterinst, "14"),
        )
        for verb in ("Update", "Delete")
    ),
    unknown("DeleteFlavor", flavor("none")),
    unknown("DeleteCluster", template("none")),
    unknown("EvictCloudletInfo", info("none")),
]

NAMES = [
    Way(Refusal.DEVELOPER_NAME, "Invalid developer name", "CreateApp", app(owner=BAD)),
    Way(Refusal.APP_NAME, "Invalid app name", "CreateAppInst", appinst(BAD)),
    Way(Refusal.OPERATOR_NAME, "Invalid operator name", "CreateCloudlet", cloudlet(owner=BAD)),
    *(
        Way(refusal, text, method, make(key={part: BAD}, **NOBODY_ASKED))
        for refusal, text, part in (
            (Refusal.OPERATOR_NAME, "Invalid operator name", "owner"),
            (Refusal.CLOUDLET_NAME, "Invalid cloudlet name", "place"),
        )
        for method, make in (("CreateClusterInst", clusterinst), ("CreateAppInst", appinst))
    ),
    Way(Refusal.CLUSTER_NAME, "Invalid cluster name", "CreateAppInst", appinst(cluster="a_b")),
    *(
        Way(Refusal.FIELD_UNKNOWN, "unknown field path 99", f"Update{noun}", make(fields=["99"]))
        for noun, make in (
            *(("Operator", operator), ("Cloudlet", cloudlet), ("App", app)),
            *(("ClusterInst", clusterinst), ("AppInst", appinst)),
        )
    ),
    Way(
        *(Refusal.ENUM_UNKNOWN, "invalid CRMOverride", "DeleteAppInst"),
        appinst(crm_override=9),
    ),
    Way(
        *(Refusal.ENUM_UNKNOWN, "invalid IpAccess", "CreateAppInst"),
        appinst("dock", auto_cluster_ip_access=9),
    ),
]

KEYS_FIRST = [
    *(
        Way(refusal, text, f"{verb}{noun}", request)
        for noun, refusal, text, requests in (
            ("Developer", Refusal.DEVELOPER_NAME, "Invalid developer name", (developer(BAD),)),
            ("Operator", Refusal.OPERATOR_NAME, "Invalid operator name", (operator(""),)),
            ("Flavor", Refusal.FLAVOR_NAME, "Invalid flavor name", (flavor(BAD),)),
            ("Cluster", Refusal.CLUSTER_NAME, "Invalid cluster name", (template("a_b"),)),
            *(
                (noun, refusal, text, (make(name, fields=["99"], **key),))
                for refusal, text, key in (
                    (Refusal.OPERATOR_NAME, "Invalid operator name", {"owner": BAD}),
                    (Refusal.CLOUDLET_NAME, "Invalid cloudlet name", {"place": ""}),
                )
                for noun, make, name in (
                    ("ClusterInst", in_place(clusterinst), "blue"),
                    ("AppInst", in_place(appinst), "shop"),
                )
            ),
            (
                *("Cloudlet", Refusal.OPERATOR_NAME, "Invalid operator name"),
                (cloudlet(BAD, owner=BAD, num_dynamic_ips=0, fields=["8"]),),
            ),
            (
                *("Cloudlet", Refusal.CLOUDLET_NAME, "Invalid cloudlet name"),
                (cloudlet("", num_dynamic_ips=0, fields=["8"]),),
            ),
            (
                *("ClusterInst", Refusal.CLUSTER_NAME, "Invalid cluster name"),
                (clusterinst("", **NO_KEY), clusterinst("a_b", fields=["99"], **NOWHERE)),
            ),
            ("AppInst", Refusal.APP_NAME, "Invalid app name", (appinst("", "", **NO_KEY),)),
            (
                *("AppInst", Refusal.CLUSTER_NAME, "Invalid cluster name"),
                (appinst(cluster="a_b", fields=["99"], **NOWHERE),),
            ),
        )
        for request in requests
        for verb in ("Update", "Delete")
    ),
]
"""Updates and deletes say what is wrong with a key before they say anything else."""

AUTO = 'Cluster name prefix "autocluster" is reserved'

RESERVED = [
    *(
        Way(Refusal.CLUSTER_RESERVED, AUTO, method, make(name))
        for method, make in (("CreateCluster", template), ("CreateClusterInst", clusterinst))
        for name in ("autocluster", "autocluster1", "autocluster_1")
    ),
    Way(Refusal.APP_NAME, "Invalid app name", "CreateApp", app("", "", "")),
    Way(Refusal.APP_VERSION, "Invalid app version string", "CreateApp", app(owner="", version="")),
]

CLOUDLETS = [
    *(
        unready(
            f'operator_key:<name:"tele" > name:"{WRITTEN.get(place, place)}" ',
            *(state, f"{verb}{noun}", make(key={"place": place}, fields=["14"])),
        )
        for place, state in UNREADY.items()
        for noun, make, verbs in (
            ("ClusterInst", clusterinst, ("Create", "Update", "Delete")),
            ("AppInst", appinst, ("Create", "Delete")),
        )
        for verb in verbs
        if verb == "Create" or place not in WRITTEN
    ),
    unready("operator_key:<> ", "NOT_PRESENT", "CreateClusterInst", clusterinst("", **NO_KEY)),
    unready(
        *('operator_key:<name:"tele" > ', "NOT_PRESENT", "CreateClusterInst"),
        clusterinst(key={"place": ""}),
    ),
    unready(
        *('operator_key:<> name:"west" ', "NOT_PRESENT", "CreateClusterInst"),
        clusterinst(key={"owner": ""}),
    ),
    *(
        Way(Refusal.CLOUDLET_UNKNOWN, "Specified cloudlet not found", method, appinst(**NOWHERE))
        for method in ("CreateAppInst", "DeleteAppInst")
    ),
    Way(
        *(Refusal.CLOUDLET_IPS_STATIC, "Only dynamic IPs are supported currently"),
        *("UpdateCloudlet", cloudlet(ip_support=common_pb2.IP_SUPPORT_STATIC, fields=["6"])),
    ),
    *(
        Way(
            *(Refusal.CLOUDLET_FEW_IPS, FEW_IPS, "UpdateCloudlet"),
            cloudlet(num_dynamic_ips=number, fields=["8"]),
        )
        for number in (0, -1)
    ),
    Way(
        *(Refusal.CLOUDLET_IPS_STATIC, "Only dynamic IPs are supported currently"),
        "UpdateCloudlet",
        cloudlet(num_dynamic_ips=0, ip_support=common_pb2.IP_SUPPORT_STATIC, fields=["6", "8"]),
    ),
    Way(
        *(Refusal.CLOUDLET_LATITUDE, "Invalid latitude value", "UpdateCloudlet"),
        cloudlet(location=at(-90.1, 1), fields=["5.1"]),
    ),
    Way(
        *(Refusal.CLOUDLET_LONGITUDE, "Invalid longitude value", "UpdateCloudlet"),
        cloudlet(location=at(1, 180.1), fields=["5.2"]),
    ),
]

APPS = [
    *(
        ports(method, *way)
        for method in ("CreateApp", "UpdateApp")
        for way in (
            ("tcp:2147483648", Refusal.PORT_NUMBER, parsed("2147483648", "value out of range")),
            ("tcp:-2147483649", Refusal.PORT_NUMBER, parsed("-2147483649", "value out of range")),
            ("tcp: 80", Refusal.PORT_NUMBER, parsed(" 80", "invalid syntax")),
            ("tcp:80-90", Refusal.PORT_NUMBER, parsed("80-90", "invalid syntax")),
            ("tcp:", Refusal.PORT_NUMBER, parsed("", "invalid syntax")),
            ("tcp:0", Refusal.PORT_RANGE, "Port 0 out of range"),
            ("tcp:-1", Refusal.PORT_RANGE, "Port -1 out of range"),
            ("tcp:2147483647", Refusal.PORT_RANGE, "Port 2147483647 out of range"),
            *(
                (
                    *(written, Refusal.PORT_FORMAT),
                    f"Invalid Access Ports format, expected proto:port but was {before}",
                )
                for written, before in (("tcp:1:2", "tcp"), ("tcp:80,", ""), ("tcp", "tcp"))
            ),
            (":80", Refusal.PORT_PROTOCOL, " is not a supported Protocol"),
        )
    ),
    Way(
        *(Refusal.APP_NO_MD5, "md5 checksum of image is required", "CreateApp"),
        app("new", **{**VM, "image_path": "http://images/x.qcow2"}),
    ),
    *(
        Way(Refusal.APP_FLAVOR, "Specified flavor not found", method, request)
        for method, request in (
            ("CreateApp", app("new", default_flavor=None)),
            ("CreateApp", app("new", default_flavor=FlavorKey(name="x"))),
            ("UpdateApp", app(default_flavor=FlavorKey(name="x"), fields=["9"])),
        )
    ),
    *(
        Way(
            *(
                Refusal.APP_HAS_INSTANCES,
                "deployment cannot be changed while the app has instances",
            ),
            *("UpdateApp", request),
        )
        for request in (
            app(deployment="docker", fields=["15"]),
            app(**VM, deployment="vm", fields=["4", "5", "7", "15"]),
        )
    ),
    Way(
        *(Refusal.APP_DEPLOYMENT_IMAGE, "deployment is not valid for image type", "UpdateApp"),
        app(image_type=app_pb2.IMAGE_TYPE_QCOW, fields=["5"]),
    ),
]

INSTANCES = [
    Way(
        *(Refusal.CLUSTER_NAME, "Invalid cluster name", "CreateAppInst"),
        appinst(cluster=""),
    ),
    *(
        Way(refusal, text, "EvictCloudletInfo", request)
        for refusal, text, request in (
            (Refusal.OPERATOR_NAME, "Invalid operator name", CloudletInfo()),
            (Refusal.CLOUDLET_NAME, "Invalid cloudlet name", info("")),
            (Refusal.OPERATOR_NAME, "Invalid operator name", info(owner="")),
        )
    ),
    Way(
        *(Refusal.CLUSTERINST_NOTHING, "nothing specified to update", "UpdateClusterInst"),
        clusterinst(),
    ),
    Way(
        *(Refusal.APPINST_DEPLOYMENT, "Cannot deploy kubernetes App into docker ClusterInst"),
        *("CreateAppInst", appinst("worn", "sole")),
    ),
]

WAYS = [*KEYS, *NAMES, *KEYS_FIRST, *RESERVED, *CLOUDLETS, *APPS, *INSTANCES]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.refusal.name}-{way.method}")
async def test_says_no_to_the_byte(way: Way, legacy: bool, site: Edge) -> None:
    told = await site.refused(way.method, way.request)
    assert (told.message, told.reason) == (way.text, way.refusal.name)
    assert told.code is (grpc.StatusCode.UNKNOWN if legacy else CODES[way.refusal.kind])
