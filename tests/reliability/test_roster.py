"""The verdict of the drills of nodes finds what it is there for."""

from domain.instance import Phase
from domain.node import NodePhase
from tests.reliability.fleet import Running
from tests.reliability.roster import Life, Place, Roster, contradictions

RUNS = Life("web", Phase.RUNNING, "n0")
KEPT = Life("job", Phase.STOPPED, "n0")
OVER = Life("old", Phase.FAILED, closed=True)
ROSTER = Roster(
    lives=[RUNS, KEPT, OVER],
    places=[Place("web", "n0", 20), Place("job", "n0", 20)],
    nodes={"n0": NodePhase.RUNNING},
    taken={"n0": 40},
)
WEB = Running("web", "n0", pid=10)


def test_what_agrees_is_not_complained_of() -> None:
    assert contradictions(ROSTER, [WEB]) == []


def test_a_copy_too_few_too_many_or_elsewhere_is_found() -> None:
    assert contradictions(ROSTER, []) == ["web does not run on n0"]
    assert contradictions(ROSTER, [WEB, WEB]) == ["web runs on n0 and should not"]
    assert contradictions(ROSTER, [WEB._replace(node="n1")]) == [
        "web does not run on n0",
        "web runs on n1 and should not",
    ]


def test_an_orphan_is_found() -> None:
    for id in ("job", "old", "who"):
        assert contradictions(ROSTER, [WEB, WEB._replace(instance=id)]) == [
            f"{id} runs on n0 and should not"
        ]


def test_what_is_not_at_rest_is_found() -> None:
    moves = ROSTER._replace(lives=[RUNS, KEPT._replace(phase=Phase.STOPPING), OVER])
    assert contradictions(moves, [WEB]) == ["job is stopping and not at rest"]
    unclosed = ROSTER._replace(lives=[RUNS, KEPT, OVER._replace(closed=False)])
    assert contradictions(unclosed, [WEB]) == ["1 instances are over and not closed"]


def test_reservations_are_what_the_living_need() -> None:
    assert contradictions(ROSTER._replace(taken={"n0": 60}), [WEB]) == [
        "60 of n0 is taken, and its places are of 40"
    ]
    more = ROSTER._replace(places=[*ROSTER.places, Place("old", "n0", 20)], taken={"n0": 60})
    assert contradictions(more, [WEB]) == ["old holds a place on n0 for nothing"]
    left = ROSTER._replace(places=[*ROSTER.places, Place("web", "n1", 20, left=True)])
    assert contradictions(left, [WEB]) == ["web has left a copy on n1"]
    fewer = ROSTER._replace(places=[Place("web", "n0", 20)], taken={"n0": 20})
    assert contradictions(fewer, [WEB]) == ["job has nothing of n0"]


def test_ports_that_nobody_has_are_found() -> None:
    empty = Roster([OVER], [], {}, {}, ports=2)
    assert contradictions(empty, []) == ["2 ports of hosts are taken by nobody"]


def test_who_runs_elsewhere_is_who_is_running_on_another_node() -> None:
    assert ROSTER.running_elsewhere("n1") == {"web"}
    assert ROSTER.running_elsewhere("n0") == set()
