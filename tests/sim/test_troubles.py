"""Faults with names, as the command line takes them."""

import json

import pytest

from domain.errors import Invalid
from sim.faults import Fault, Faults, How
from sim.troubles import TROUBLES, fault
from tests.architecture.tree import ROOT


@pytest.mark.parametrize("name", TROUBLES)
def test_a_name_is_a_fault_and_is_described(name: str) -> None:
    assert fault(name) == TROUBLES[name]
    assert f"| `{name}` |" in (ROOT / "docs" / "operating.md").read_text()


def test_what_a_name_leaves_open_is_said_behind_it() -> None:
    found = fault("slow-hosts,seconds=2,where=ssh exec abc123 *,times=3")
    assert (found.how, found.seconds, found.times) == (How.SLOW, 2, 3)
    assert found.where == "ssh exec abc123 *"


def test_a_fault_without_a_name_is_written_out() -> None:
    written = {"where": "deploy *", "how": "fail"}
    assert fault(json.dumps(written)) == Fault(where="deploy *", how=How.FAIL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sulks", "no fault is called 'sulks'"),
        ("slow-hosts,seconds", "slow-hosts,seconds is no fault"),
        ("slow-hosts,seconds=soon", "slow-hosts,seconds=soon is no fault"),
        ('{"where": "deploy *", "how": "sulk"}', "is no fault"),
    ],
)
def test_what_is_no_fault_is_refused(text: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        fault(text)
    assert said in caught.value.message
    assert caught.value.do


def test_what_flaps_answers_refuses_and_resets_in_turn() -> None:
    faults = Faults()
    faults.add(Fault(where="it *", how=How.FLAP, nth=2, times=5))
    met = [faults.meet("it answers") for _ in range(7)]
    hows = [each and each.how for each in met]
    assert hows == [None, None, How.REFUSE, How.DROP, None, How.REFUSE, None]


@pytest.mark.parametrize(
    ("how", "lasts"), [(How.SLOW, 7.0), (How.FAIL, 0.0), (How.HANG, 10 * 365 * 86400.0)]
)
def test_what_can_be_late_is_late_for_so_long(how: How, lasts: float) -> None:
    faults = Faults()
    faults.add(Fault(where="boot *", how=how, seconds=7))
    assert faults.lasts("boot abc123") == lasts
    assert faults.lasts("boot abc123") == 0
