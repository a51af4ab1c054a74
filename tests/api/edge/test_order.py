"""The order of checks, which decides what a client is told: everything is wrong at first, and is
put right piece by piece."""

from collections.abc import Callable
from typing import Any

from protos.gen.edge.app_pb2 import IMAGE_TYPE_DOCKER
from protos.gen.edge.common_pb2 import IP_SUPPORT_STATIC
from protos.gen.edge.flavor_pb2 import FlavorKey
from tests.api.edge.stubs import Edge, app, at, cloudlet, flavor

APP: list[tuple[str, dict[str, Any]]] = [
    ("DEVELOPER_NAME", {"owner": "acme"}),
    ("APP_NAME", {"name": "shop"}),
    ("APP_VERSION", {"version": "1.0"}),
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


async def put_right(
    edge: Edge,
    method: str,
    make: Callable[..., Any],
    wrong: dict[str, Any],
    cures: list[tuple[str, dict[str, Any]]],
) -> None:
    """Cure one thing after the other; at the end only the key is in the way, then nothing."""
    said = dict(wrong)
    for reason, cure in cures:
        assert (await edge.refused(method, make(**said))).reason == reason
        said |= cure
    await edge(method, make(**said))
    assert (await edge.refused(method, make(**said))).reason == "KEY_TAKEN"


async def test_an_app_is_looked_at_in_order(edge: Edge) -> None:
    await edge("CreateFlavor", flavor())
    await edge("CreateApp", app("first", android_package_name="com.x"))
    await put_right(edge, "CreateApp", app, WRONG_APP, APP)


async def test_a_cloudlet_is_looked_at_in_order(edge: Edge) -> None:
    await put_right(edge, "CreateCloudlet", cloudlet, WRONG_CLOUDLET, CLOUDLET)


async def test_a_changed_cloudlet_is_looked_at_before_it_is_looked_for(edge: Edge) -> None:
    every = ["5", "6", "8"]
    for reason, given in (
        ("CLOUDLET_FEW_IPS", cloudlet(num_dynamic_ips=0, location=at(0, 0), fields=every)),
        ("CLOUDLET_LATITUDE_ZERO", cloudlet(location=at(0, 0), ip_support=9, fields=every)),
        ("CLOUDLET_LONGITUDE_ZERO", cloudlet(location=at(91, 0), ip_support=9, fields=every)),
        ("CLOUDLET_LATITUDE", cloudlet(location=at(91, 181), ip_support=9, fields=every)),
        ("CLOUDLET_LONGITUDE", cloudlet(location=at(9, 181), ip_support=9, fields=every)),
        ("CLOUDLET_IPS", cloudlet(ip_support=9, fields=every)),
        ("KEY_UNKNOWN", cloudlet(ip_support=IP_SUPPORT_STATIC, fields=every)),
    ):
        assert (await edge.refused("UpdateCloudlet", given)).reason == reason
