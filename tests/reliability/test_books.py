"""The verdict of the drill `edge` finds what it is there for."""

from domain.appinst import AppInst
from domain.clusterinst import ClusterInst
from domain.tracking import Phase
from domain.usage import Taken, summed
from tests.reliability.books import App, Books, Cluster, contradictions, under_way
from tests.workflows.edge import appinst_key, cluster_key

ROOM = Taken(ram=2048, addresses=1)
BLUE = Cluster("blue", ClusterInst(key=cluster_key("blue")), Phase.READY, ROOM)
SHOP = App("shop", AppInst(key=appinst_key("shop")), Phase.READY, Taken())
BOOKS = Books([BLUE], [SHOP], summed([ROOM]), [], {"cluster blue", "app shop in blue"})


def test_what_agrees_is_not_complained_of() -> None:
    assert contradictions(BOOKS) == under_way(BOOKS) == []


def test_what_is_under_way_is_named() -> None:
    late = BOOKS._replace(
        apps=[SHOP._replace(phase=Phase.DELETING)], operations=["delete-appinst shop running"]
    )
    assert under_way(late) == ["not ended: delete-appinst shop running", "shop is DELETING"]


def test_what_is_taken_is_what_the_instances_took() -> None:
    [text] = contradictions(BOOKS._replace(usage=summed([ROOM, ROOM])))
    assert "ram=2048" in text
    assert "ram=4096" in text
    assert "blue is READY and has nothing" in contradictions(
        BOOKS._replace(clusters=[BLUE._replace(taken=None)])
    )


def test_no_port_is_given_twice() -> None:
    port = Taken(ports=((80, 1),))
    twice = [SHOP._replace(key=key, taken=port) for key in ("shop", "other")]
    assert "port (80, 1) is given to 2" in contradictions(BOOKS._replace(apps=twice))


def test_the_platform_runs_what_is_ready_and_nothing_unknown() -> None:
    assert contradictions(BOOKS._replace(carried={"cluster blue", "cluster red"})) == [
        "nobody knows of cluster red, which runs",
        "app shop in blue is READY and does not run",
    ]
