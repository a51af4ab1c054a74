"""Masks: what they name, and what a change does with what they name."""

import pytest

from api.edge.masks import mask
from domain.errors import Invalid
from protos.gen.edge.app_pb2 import ConfigFile
from protos.gen.edge.cloudlet_pb2 import CloudletInfo, FlavorInfo
from protos.gen.edge.dme.loc_pb2 import Loc, Timestamp
from settings import Edge as Terms
from tests.api.edge.stubs import Edge, app, at, cloudlet, developer, flavor, operator

LOCATION = {f"5.{leaf}" for leaf in ("1", "2", "3", "4", "5", "6", "7", "8.1", "8.2")}


@pytest.mark.parametrize(
    ("path", "leaves"),
    [
        ("5.1", {"5.1"}),
        ("5.8", {"5.8.1", "5.8.2"}),
        ("5", LOCATION),
        ("2", {"2.1.1", "2.2"}),
        ("2.1.1", {"2.1.1"}),
    ],
)
def test_a_part_stands_for_everything_below_it(path: str, leaves: set[str]) -> None:
    assert mask(cloudlet(fields=[path]), lax=False).leaves == leaves


@pytest.mark.parametrize("path", ["21", "21.1", "21.2"])
def test_no_path_leads_into_a_list(path: str) -> None:
    assert mask(app(fields=[path]), lax=False).leaves == {"21"}


@pytest.mark.parametrize(
    "path", ["", "1", "3", "99", "5.9", "5.1.1", "21.3", "05", "5.", ".5", "email", "٥", "9" * 5000]
)
def test_a_path_that_leads_nowhere_is_refused_or_ignored(path: str) -> None:
    named = cloudlet(fields=[path, "4"])
    with pytest.raises(Invalid, match="unknown field path "):
        mask(named, lax=False)
    assert mask(named, lax=True).leaves == {"4"}


def test_what_is_named_is_copied_and_nothing_else() -> None:
    into = cloudlet(access_uri="before", location=at(1, 2, altitude=3))
    given = cloudlet(fields=["5.1", "5.8.1"], access_uri="after", num_dynamic_ips=9)
    given.location.CopyFrom(at(7, 8, altitude=9, timestamp=Timestamp(seconds=5, nanos=6)))
    mask(given, lax=False).merge(into, given)
    wanted = at(7, 2, altitude=3, timestamp=Timestamp(seconds=5))
    assert into == cloudlet(access_uri="before", location=wanted)


def test_an_empty_value_clears() -> None:
    into = cloudlet(location=at(1, 2, altitude=3))
    given = cloudlet(fields=["5"], location=Loc())
    mask(given, lax=False).merge(into, given)
    assert into.location == Loc(timestamp=Timestamp())


def test_lists_are_replaced_whole() -> None:
    into = CloudletInfo(errors=["a", "b"], flavors=[FlavorInfo(name="x"), FlavorInfo(name="y")])
    given = CloudletInfo(fields=["9", "10.1"], flavors=[FlavorInfo(name="z", ram=1)])
    mask(given, lax=False).merge(into, given)
    assert into == CloudletInfo(flavors=[FlavorInfo(name="z", ram=1)])


async def test_only_what_is_named_changes(edge: Edge) -> None:
    await edge("CreateDeveloper", developer(email="a@x", address="here"))
    await edge("UpdateDeveloper", developer(email="b@x", username="ann", fields=["6", "2", "2.2"]))
    assert await edge("ShowDeveloper", developer("")) == [developer(email="b@x", address="here")]
    await edge("UpdateDeveloper", developer(fields=["6"]))
    assert await edge("ShowDeveloper", developer("")) == [developer(address="here")]


async def test_an_empty_mask_changes_nothing(edge: Edge) -> None:
    for noun, before, after in (
        ("Developer", developer(email="a@x"), developer(email="b@x")),
        ("Operator", operator(), operator()),
        ("Cloudlet", cloudlet(), cloudlet(access_uri="elsewhere", location=at(1, 2))),
    ):
        await edge(f"Create{noun}", before)
        await edge(f"Update{noun}", after)
        assert await edge(f"Show{noun}", type(before)()) == [before]


async def test_a_cloudlet_moves(edge: Edge) -> None:
    await edge("CreateCloudlet", cloudlet(location=at(1, 2, altitude=3)))
    moved = cloudlet(location=at(10, 20), num_dynamic_ips=7, fields=["5.1", "5.2", "8"])
    assert await edge("UpdateCloudlet", moved) == [], "no message, and a good end"
    [shown] = await edge("ShowCloudlet", cloudlet(num_dynamic_ips=7))
    assert shown == cloudlet(location=at(10, 20, altitude=3), num_dynamic_ips=7)


async def test_a_cloudlet_stays_with_dynamic_addresses(edge: Edge) -> None:
    await edge("CreateCloudlet", cloudlet(ip_support=0))
    [shown] = await edge("ShowCloudlet", cloudlet())
    assert shown == cloudlet()
    told = await edge.refused("UpdateCloudlet", cloudlet(ip_support=1, fields=["6"]))
    assert told.reason == "CLOUDLET_IPS_STATIC"
    told = await edge.refused("UpdateCloudlet", cloudlet("none", ip_support=1, fields=["6"]))
    assert told.reason == "KEY_UNKNOWN"
    told = await edge.refused("UpdateCloudlet", cloudlet("none", ip_support=9, fields=["6"]))
    assert told.reason == "CLOUDLET_IP_SUPPORT"
    await edge("UpdateCloudlet", cloudlet(ip_support=0, fields=["6"]))
    assert await edge("ShowCloudlet", cloudlet()) == [cloudlet()]


@pytest.mark.parametrize("terms", [Terms(lax_masks=True)])
async def test_lax_masks_pass_over_what_they_do_not_know(edge: Edge) -> None:
    await edge("CreateDeveloper", developer())
    await edge("UpdateDeveloper", developer(email="b@x", fields=["99", "6"]))
    assert await edge("ShowDeveloper", developer("")) == [developer(email="b@x")]


async def test_configs_of_an_app_are_replaced_whole(edge: Edge) -> None:
    await edge("CreateFlavor", flavor())
    one, other = ConfigFile(kind="a", config="1"), ConfigFile(kind="b", config="2")
    await edge("CreateApp", app(configs=[one]))
    await edge("UpdateApp", app(configs=[other, one], fields=["21.1"]))
    [shown] = await edge("ShowApp", app(access_ports="", image_type=0))
    assert list(shown.configs) == [other, one]
