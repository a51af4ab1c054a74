"""Where instances stand, what may be asked of them, and of what they are made."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from domain.errors import Conflict, Invalid
from domain.instance import (
    ASKED,
    LONGEST_PAUSE,
    NEXT,
    OVER,
    WISHES,
    Call,
    InstanceSpec,
    Phase,
    Port,
    Restart,
    advance,
    asked,
    check,
    pause,
    restarts,
)
from domain.placement import Amounts, Demands
from domain.probing import Probe

FORBIDDEN = [(a, b) for a, b in product(Phase, Phase) if a is not b and b not in NEXT[a]]


def spec(**more: Any) -> InstanceSpec:
    return InstanceSpec(**{"id": "web-1", "uri": "builtin:idle", "limit": Amounts(), **more})


@pytest.mark.parametrize(("now", "to"), FORBIDDEN)
def test_refuses_every_other_move(now: Phase, to: Phase) -> None:
    with pytest.raises(Conflict, match=f"web is {now} and cannot become {to}"):
        advance("web", now, to)


def test_every_phase_may_be_left_or_is_the_end() -> None:
    assert NEXT.keys() == set(Phase)
    assert {phase for phase in Phase if not NEXT[phase]} == OVER


def test_whatever_is_asked_is_a_move_that_there_is() -> None:
    assert ASKED.keys() == set(Call) == WISHES.keys()
    for table in ASKED.values():
        for now, to in table.items():
            assert advance("web", now, to) is to


def test_a_destroy_is_never_refused() -> None:
    assert ASKED[Call.DESTROY].keys() == set(Phase)


@pytest.mark.parametrize("now", sorted(set(Phase) - ASKED[Call.START].keys()))
def test_what_ends_or_is_over_cannot_be_started(now: Phase) -> None:
    with pytest.raises(Conflict, match=f"web is {now}"):
        asked("web", now, Call.START)


def test_pauses_double_and_have_an_end() -> None:
    assert [pause(number).total_seconds() for number in range(4)] == [1, 2, 4, 8]
    assert pause(10_000) == LONGEST_PAUSE == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("policy", "badly", "again"),
    [
        (Restart.NEVER, True, False),
        (Restart.ON_FAILURE, True, True),
        (Restart.ON_FAILURE, False, False),
        (Restart.ALWAYS, False, True),
    ],
)
def test_who_is_run_again(policy: Restart, badly: bool, again: bool) -> None:
    assert restarts(policy, badly=badly) is again


def test_k27_a_value_may_hold_an_equals_sign_and_the_last_of_a_key_counts() -> None:
    kept = check(spec(environment=("A=b=c", "B=", "A=d=e")))
    assert kept.environment == ("A=d=e", "B=")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": "a/b"}, "id"),
        ({"uri": ""}, "uri"),
        ({"environment": ("=x",)}, "environment[0]"),
        ({"environment": ("A=1", "B")}, "environment[1]"),
        ({"ports": (Port(source=70000, destination=80),)}, "ports[0].source"),
        ({"ports": (Port(source=1, destination=0),)}, "ports[0].destination"),
        (
            {"ports": (Port(source=1, destination=2), Port(source=1, destination=3))},
            "ports[1].source",
        ),
        ({"limit": Amounts(cpu=-1)}, "resource.limit.cpu"),
        ({"command": ("x",) * 257}, "command"),
        ({"demands": Demands(constraints=("zone=x", "zone"))}, "constraints[1]"),
        ({"demands": Demands(affinity=("=x",))}, "affinity[0]"),
        ({"demands": Demands(spread_by="zone")}, "workload"),
        ({"demands": Demands(workload="w", most_per_node=-1)}, "most_per_node"),
        ({"probe": Probe()}, "probe"),
        ({"probe": Probe(tcp=80, http=":80/")}, "probe"),
        ({"probe": Probe(http="80")}, "probe.http"),
        ({"probe": Probe(http=":65536/")}, "probe.http"),
        ({"probe": Probe(tcp=-1)}, "probe.tcp"),
        ({"probe": Probe(tcp=80, retries=0)}, "probe"),
    ],
)
def test_what_cannot_be_asked_for_is_named(more: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check(spec(**more))
    assert [each.field for each in refused.value.violations] == [field]
