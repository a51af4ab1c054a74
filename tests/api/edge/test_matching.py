"""Query by example."""

from typing import Any

import pytest

from api.edge.matching import matches, narrows
from protos.gen.edge import app_pb2, cloudlet_pb2, refs_pb2
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstKey, AppInstRuntime
from protos.gen.edge.cloudlet_pb2 import CloudletInfo, CloudletKey, FlavorInfo
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInstKey
from protos.gen.edge.dme.appcommon_pb2 import AppPort
from tests.api.edge.stubs import Edge, app, at, developer, flavor, operator

WEST = CloudletKey(operator_key=operator().key, name="west")
INSTANCE = AppInst(
    key=AppInstKey(
        app_key=app().key,
        cluster_inst_key=ClusterInstKey(
            cluster_key=ClusterKey(name="c1"), cloudlet_key=WEST, developer="acme"
        ),
    ),
    cloudlet_loc=at(1, 2),
    uri="west.tele",
    mapped_ports=[AppPort(internal_port=80)],
    runtime_info=AppInstRuntime(container_ids=["x"]),
    errors=["one", "two"],
)
INFO = CloudletInfo(key=WEST, os_max_ram=500, errors=["a", "b"], flavors=[FlavorInfo(name="f")])
REFS = refs_pb2.CloudletRefs(
    key=WEST, clusters=[ClusterKey(name="c1")], root_lb_ports={80: 1, 10002: 3}
)


def on(name: str, owner: str = "") -> AppInst:
    """Instances on cloudlets of a name, anybody's perhaps."""
    key = CloudletKey(name=name, operator_key=operator(owner).key)
    return AppInst(key=AppInstKey(cluster_inst_key=ClusterInstKey(cloudlet_key=key)))


@pytest.mark.parametrize(
    ("example", "message", "same"),
    [
        (AppInst(), INSTANCE, True),
        (on("west"), INSTANCE, True),
        (on("west", "tele"), INSTANCE, True),
        (on("west", "Tele"), INSTANCE, False),
        (on("wes"), INSTANCE, False),
        (AppInst(uri="west.tele"), INSTANCE, True),
        (AppInst(uri="other"), INSTANCE, False),
        (AppInst(cloudlet_loc=at(8, 9)), INSTANCE, True),
        (AppInst(runtime_info=AppInstRuntime(container_ids=["y"])), INSTANCE, True),
        (AppInst(fields=["9"]), INSTANCE, True),
        (AppInst(mapped_ports=[AppPort(internal_port=1)]), INSTANCE, True),
        (AppInst(mapped_ports=[AppPort(), AppPort()]), INSTANCE, False),
        (AppInst(errors=["one", "two"]), INSTANCE, True),
        (AppInst(errors=["two", "one"]), INSTANCE, False),
        (AppInst(errors=["one"]), INSTANCE, False),
        (CloudletInfo(flavors=[FlavorInfo(name="other", ram=7)]), INFO, True),
        (CloudletInfo(os_max_ram=501), INFO, False),
        (refs_pb2.CloudletRefs(root_lb_ports={10002: 3, 80: 1}), REFS, True),
        (refs_pb2.CloudletRefs(root_lb_ports={80: 1}), REFS, False),
        (refs_pb2.CloudletRefs(root_lb_ports={80: 1, 10002: 1}), REFS, False),
        (refs_pb2.CloudletRefs(clusters=[ClusterKey(name="c1")]), REFS, True),
        (refs_pb2.CloudletRefs(clusters=[ClusterKey(name="c2")]), REFS, False),
    ],
)
def test_what_is_set_has_to_be_the_same(example: Any, message: Any, same: bool) -> None:
    assert matches(example, message) is same


@pytest.mark.parametrize(
    "example",
    [AppInst(fields=["2"]), on(""), AppInst(cloudlet_loc=at(1, 2)), cloudlet_pb2.Cloudlet()],
)
def test_what_says_nothing_leaves_nothing_out(example: Any) -> None:
    assert not narrows(example)


async def test_shows_what_is_like_the_example(edge: Edge) -> None:
    await edge("CreateFlavor", flavor())
    for name, version in (("b", "1"), ("a", "2"), ("a", "1")):
        await edge("CreateApp", app(name, version=version))
    await edge("CreateApp", app("a", "zeta"))
    anything = app_pb2.App()
    assert await edge.names("App", anything) == ["a", "a", "b", "a"]
    anything.key.name = "a"
    shown = await edge("ShowApp", anything)
    assert [(each.key.developer_key.name, each.key.version) for each in shown] == [
        ("acme", "1"),
        ("acme", "2"),
        ("zeta", "1.0"),
    ]
    whole = app_pb2.App(key=app("a", version="2").key)
    [one] = await edge("ShowApp", whole)
    assert one.key == whole.key
    whole.command = "none has this"
    assert await edge("ShowApp", whole) == []
    assert await edge("ShowDeveloper", developer("nobody")) == []
