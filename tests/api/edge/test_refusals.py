"""Every refusal of the contract: provoked over the wire, and read to the byte, in both modes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import pytest
from sqlalchemy import URL, make_url

from api.errors import CODES
from domain.refusal import Refusal
from protos.gen.edge import app_pb2, common_pb2
from settings import Edge as Terms
from store import schema
from tests.api.edge import test_exec, test_instance_refusals, test_streams
from tests.api.edge.stubs import (
    Edge,
    app,
    at,
    cloudlet,
    clusterinst,
    developer,
    flavor,
    info,
    operator,
    template,
)


class Case(NamedTuple):
    """How a refusal is come by, and what it says then."""

    method: str
    request: Any
    text: str
    before: Sequence[tuple[str, Any]] = ()
    on: str = ""
    """The setting without which it is not said."""


FLAVOR = ("CreateFlavor", flavor())
QCOW = app_pb2.IMAGE_TYPE_QCOW
STATIC = common_pb2.IP_SUPPORT_STATIC
BAD = "_bad"
IMAGE = "http://images/x.qcow2"
VM: dict[str, Any] = {"image_type": QCOW, "image_path": f"{IMAGE}#md5:1", "access_ports": ""}
TOO_LONG = "a" * 1200
SOMEWHERE = "http://127.0.0.1:1/manifest"


def port(text: str) -> app_pb2.App:
    return app(access_ports=text)


WEST = ("CreateCloudlet", cloudlet())
STRICT, LIMITED = "strict_references", "enforce_resources"
UNASKED: dict[str, Any] = {"crm_override": common_pb2.IGNORE_CRM}
READY = [FLAVOR, ("CreateOperator", operator()), WEST, ("InjectCloudletInfo", info())]
NEVER_SO_MUCH: dict[str, Any] = {"os_max_ram": 9_999, "os_max_vcores": 99, "os_max_vol_gb": 999}


def full(what: str, **less: int) -> Case:
    """What is said where everything is there but that."""
    there = ("InjectCloudletInfo", info(**{**NEVER_SO_MUCH, **less}))
    text = f"not enough {what} left on the cloudlet"
    cluster = clusterinst(**UNASKED)
    return Case("CreateClusterInst", cluster, text, [FLAVOR, WEST, there], LIMITED)


CASES: dict[Refusal, Case] = {
    Refusal.KEY_TAKEN: Case(
        "CreateOperator", operator(), "Key already exists", [("CreateOperator", operator())]
    ),
    Refusal.KEY_UNKNOWN: Case("DeleteOperator", operator(), "Key not found"),
    Refusal.KEY_TOO_LONG: Case(
        "CreateOperator", operator(TOO_LONG), "key is longer than 1200 bytes"
    ),
    Refusal.FIELD_UNKNOWN: Case(
        "UpdateDeveloper", developer(fields=["6.1"]), "unknown field path 6.1"
    ),
    Refusal.DEVELOPER_NAME: Case("CreateDeveloper", developer(BAD), "Invalid developer name"),
    Refusal.OPERATOR_NAME: Case("CreateOperator", operator(BAD), "Invalid operator name"),
    Refusal.FLAVOR_NAME: Case("CreateFlavor", flavor(BAD), "Invalid flavor name"),
    Refusal.CLUSTER_NAME: Case("CreateCluster", template("a_b"), "Invalid cluster name"),
    Refusal.CLOUDLET_NAME: Case("CreateCloudlet", cloudlet(BAD), "Invalid cloudlet name"),
    Refusal.APP_NAME: Case("CreateApp", app(BAD), "Invalid app name"),
    Refusal.APP_VERSION: Case("CreateApp", app(version=""), "Invalid app version string"),
    Refusal.OPERATOR_RESERVED: Case(
        "CreateOperator", operator("developer"), "Cannot create operator with name = developer"
    ),
    Refusal.CLUSTER_RESERVED: Case(
        *("CreateCluster", template("autocluster1")),
        'Cluster name prefix "autocluster" is reserved',
    ),
    Refusal.FLAVOR_RAM: Case("CreateFlavor", flavor(ram=0, vcpus=0, disk=0), "Ram cannot be 0"),
    Refusal.FLAVOR_VCPUS: Case("CreateFlavor", flavor(vcpus=0, disk=0), "Vcpus cannot be 0"),
    Refusal.FLAVOR_DISK: Case("CreateFlavor", flavor(disk=0), "Disk cannot be 0"),
    Refusal.FLAVOR_UPDATE: Case("UpdateFlavor", flavor(), "Update flavor not supported", [FLAVOR]),
    Refusal.CLUSTER_UPDATE: Case("UpdateCluster", template(), "Update cluster not supported"),
    Refusal.CLUSTER_FLAVOR: Case(
        "CreateCluster", template(default="big"), "default flavor big not found", [FLAVOR]
    ),
    Refusal.CLOUDLET_IPS: Case(
        *("CreateCloudlet", cloudlet(ip_support=7)),
        "Only dynamic IPs are supported currently",
    ),
    Refusal.CLOUDLET_IPS_STATIC: Case(
        *("CreateCloudlet", cloudlet(ip_support=STATIC, num_dynamic_ips=0)),
        "Only dynamic IPs are supported currently",
    ),
    Refusal.CLOUDLET_NO_IP: Case(
        *("CreateCloudlet", cloudlet(num_dynamic_ips=0, location=at(0, 0))),
        "Must specify at least one dynamic public IP available",
    ),
    Refusal.CLOUDLET_NO_LOCATION: Case(
        *("CreateCloudlet", cloudlet(BAD, location=at(0, 0))),
        "location is missing; 0,0 is not a valid location",
    ),
    Refusal.CLOUDLET_LATITUDE: Case(
        "CreateCloudlet", cloudlet(location=at(90.1, 181)), "Invalid latitude value"
    ),
    Refusal.CLOUDLET_LONGITUDE: Case(
        "CreateCloudlet", cloudlet(location=at(90, -180.1)), "Invalid longitude value"
    ),
    Refusal.CLOUDLET_LATITUDE_ZERO: Case(
        *("UpdateCloudlet", cloudlet(location=at(0, 3), fields=["5"])),
        "Invalid latitude value of 0",
    ),
    Refusal.CLOUDLET_LONGITUDE_ZERO: Case(
        *("UpdateCloudlet", cloudlet(location=at(3, 0), fields=["5.2"])),
        "Invalid longitude value of 0",
    ),
    Refusal.CLOUDLET_IP_SUPPORT: Case(
        "UpdateCloudlet", cloudlet(ip_support=7, fields=["6"]), "invalid IpSupport"
    ),
    Refusal.CLOUDLET_FEW_IPS: Case(
        *("UpdateCloudlet", cloudlet(num_dynamic_ips=0, fields=["8"])),
        "Cannot specify less than one dynamic IP unless Ip Support Static is specified",
    ),
    Refusal.DEVELOPER_IN_USE: Case(
        *("DeleteDeveloper", developer(), "Developer in use by Application"),
        [FLAVOR, ("CreateDeveloper", developer()), ("CreateApp", app())],
    ),
    Refusal.DEVELOPER_HAS_CLUSTER: Case(
        *("DeleteDeveloper", developer(), "Developer in use by ClusterInst"),
        [*READY, ("CreateDeveloper", developer()), ("CreateClusterInst", clusterinst(**UNASKED))],
        on=STRICT,
    ),
    Refusal.CLOUDLET_FULL: full("ram", os_max_ram=4_295),
    Refusal.OPERATOR_IN_USE: Case(
        *("DeleteOperator", operator(), "Operator in use by Cloudlet"),
        [("CreateOperator", operator()), WEST],
    ),
    Refusal.FLAVOR_IN_USE: Case(
        "DeleteFlavor", flavor(), "Flavor in use by App", [FLAVOR, ("CreateApp", app())]
    ),
    Refusal.FLAVOR_IN_TEMPLATE: Case(
        *("DeleteFlavor", flavor(), "Flavor in use by Cluster template"),
        [FLAVOR, ("CreateCluster", template(default="small"))],
        on=STRICT,
    ),
    Refusal.APP_FLAVOR: Case("CreateApp", app(), "Specified flavor not found"),
    Refusal.APP_IMAGE_TYPE: Case(
        "CreateApp", app(image_type=9, access_ports="x"), "invalid ImageType"
    ),
    Refusal.APP_DELETE_TYPE: Case("CreateApp", app(del_opt=9), "invalid DeleteType"),
    Refusal.PORT_FORMAT: Case(
        *("CreateApp", port("tcp:1,udp80")),
        "Invalid Access Ports format, expected proto:port but was udp80",
    ),
    Refusal.PORT_PROTOCOL: Case("CreateApp", port("SCTP:x"), "SCTP is not a supported Protocol"),
    Refusal.PORT_NUMBER: Case(
        *("CreateApp", port("tcp:8o")),
        'Failed to convert port 8o to integer: strconv.ParseInt: parsing "8o": invalid syntax',
    ),
    Refusal.PORT_RANGE: Case("CreateApp", port("tcp:65536"), "Port 65536 out of range"),
    Refusal.PORTS_TOO_MANY: Case(
        "CreateApp", port(",".join(["tcp:1"] * 1001)), "1001 access ports, at most 1000"
    ),
    Refusal.APP_PUBLIC_KEY: Case(
        "CreateApp", app(auth_public_key="mine"), "auth_public_key is no public key"
    ),
    Refusal.APP_NO_DEPLOYMENT: Case(
        *("CreateApp", app(image_type=0)),
        "unknown image type IMAGE_TYPE_UNKNOWN",
    ),
    Refusal.APP_DEPLOYMENT: Case(
        *("CreateApp", app(deployment="nomad")),
        "Invalid deployment nomad, must be one of kubernetes vm helm docker",
    ),
    Refusal.APP_DEPLOYMENT_IMAGE: Case(
        "CreateApp", app(deployment="vm"), "deployment is not valid for image type"
    ),
    Refusal.APP_NO_IMAGE: Case(
        *("CreateApp", app(image_type=QCOW)),
        "imagepath is required for imagetype IMAGE_TYPE_QCOW",
    ),
    Refusal.APP_NO_MD5: Case(
        *("CreateApp", app(image_type=QCOW, image_path=f"{IMAGE}#md5:1#2")),
        "md5 checksum of image is required",
    ),
    Refusal.APP_MD5_FORMAT: Case(
        *("CreateApp", app(image_type=QCOW, image_path=f"{IMAGE}#md5")),
        "incorrect checksum format",
    ),
    Refusal.APP_MD5_ONLY: Case(
        *("CreateApp", app(image_type=QCOW, image_path=f"{IMAGE}#sha1:1")),
        "only md5 checksum is supported",
    ),
    Refusal.APP_CONFIG: Case(
        "CreateApp", app(config="- a"), "config is neither JSON nor a YAML mapping"
    ),
    Refusal.APP_TEXT_TOO_LONG: Case(
        "CreateApp", app(config="#" * 65537), "config is longer than 65536 bytes"
    ),
    Refusal.APP_GENERATOR: Case(
        *("CreateApp", app(deployment_generator="magic")),
        "unknown deployment generator magic",
    ),
    Refusal.APP_VM_COMMAND: Case(
        *("CreateApp", app(**VM, command="run", deployment_manifest="x")),
        "a vm app with a deployment manifest takes no command",
    ),
    Refusal.APP_VM_MANIFEST: Case(
        *("CreateApp", app(**VM, deployment_manifest="x")),
        "the deployment manifest of a vm app begins with #cloud-config",
    ),
    Refusal.APP_ANDROID: Case(
        *("CreateApp", app("other", android_package_name="com.x")),
        "android package name com.x is used by another app",
        [FLAVOR, ("CreateApp", app(android_package_name="com.x"))],
    ),
    Refusal.FETCH_FORBIDDEN: Case(
        *("CreateApp", app(deployment_manifest="http://10.0.0.1/x")),
        "http://10.0.0.1/x may not be fetched",
    ),
    Refusal.FETCH_FAILED: Case(
        *("CreateApp", app(deployment_manifest=SOMEWHERE)),
        f"{SOMEWHERE} could not be fetched: All connection attempts failed",
    ),
    Refusal.STRICT_OPERATOR: Case(
        "CreateCloudlet", cloudlet(), "Specified operator not found", on=STRICT
    ),
    Refusal.STRICT_DEVELOPER: Case(
        "CreateApp", app(), "Specified developer not found", [FLAVOR], on=STRICT
    ),
}

ALSO: list[tuple[Refusal, Case]] = [
    (Refusal.CLOUDLET_FULL, full("vcores", os_max_vcores=5)),
    (Refusal.CLOUDLET_FULL, full("disk", os_max_vol_gb=203)),
    (
        Refusal.STRICT_DEVELOPER,
        Case(
            *("CreateClusterInst", clusterinst(**UNASKED), "Specified developer not found"),
            READY,
            on=STRICT,
        ),
    ),
]
"""The same of other things. More of what is said in several ways is in `test_more_refusals.py`."""

ELSEWHERE = frozenset(
    {
        *(Refusal.APP_CHANGING, Refusal.NOTIFY_VERSION),
        *(story.refusal for story in test_streams.STORIES.values() if story.refusal),
        *test_exec.REFUSED,
        *test_instance_refusals.CASES,
    }
)
"""Provoked where it can be, in both modes too: in the tests of apps, of notify, of instances, of
streams, and of commands."""


@pytest.fixture(scope="session")
async def migrated(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """One database is enough: texts do not depend on it."""
    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('refusals')}/windlass.db"
    await schema.upgrade(url)
    return make_url(url)


@pytest.fixture
def terms(case: Case, legacy: bool) -> Terms:
    terms = Terms(legacy_codes=legacy, fetch_allow=("http://127.0.0.1:1",))
    return terms.model_copy(update=dict.fromkeys([case.on] if case.on else [], True))


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
@pytest.mark.parametrize(("refusal", "case"), [*CASES.items(), *ALSO])
async def test_says_no_to_the_byte(refusal: Refusal, case: Case, legacy: bool, edge: Edge) -> None:
    for method, request in case.before:
        await edge(method, request)
    told = await edge.refused(case.method, case.request)
    assert told.message == case.text
    assert told.reason == refusal.name
    assert told.code is (grpc.StatusCode.UNKNOWN if legacy else CODES[refusal.kind])


def test_no_refusal_is_left_out() -> None:
    assert CASES.keys() | ELSEWHERE == set(Refusal)


@pytest.mark.parametrize("legacy", [True])
@pytest.mark.parametrize("case", [CASES[Refusal.KEY_TAKEN]])
async def test_what_is_not_the_contracts_keeps_its_code(
    case: Case, legacy: bool, edge: Edge
) -> None:
    key = (("x-request-id", "x" * 129),)
    told = await edge.refused("CreateOperator", operator(), metadata=key)
    assert told.reason == "INVALID_REQUEST_ID"
    assert told.code is grpc.StatusCode.INVALID_ARGUMENT
