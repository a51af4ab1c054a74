"""What may be asked of a cluster in which phase."""

from itertools import product

import pytest

from domain.admission import ADMISSION, ASKED, Asked, Verdict, refuse
from domain.cluster import Phase
from domain.errors import Conflict
from domain.operation import STORED, TRACKED, Kind

LET_IN = frozenset(Verdict) - {Verdict.BUSY, Verdict.BROKEN}


def test_every_phase_says_what_becomes_of_everything_that_can_be_asked() -> None:
    assert ADMISSION.keys() == set(Phase) - {Phase.GONE}
    assert all(row.keys() == set(Asked) for row in ADMISSION.values())
    assert ASKED.keys() == set(Kind) - {Kind.CREATE_CLUSTER} - TRACKED - STORED
    assert set(ASKED.values()) == set(Asked)


def test_a_delete_is_never_refused() -> None:
    assert {row[Asked.DELETE] for row in ADMISSION.values()} <= LET_IN


@pytest.mark.parametrize(("kind", "phase"), [*product(sorted(ASKED), ADMISSION)])
def test_who_is_refused_is_told_by_what_and_what_to_do(kind: Kind, phase: Phase) -> None:
    verdict = ADMISSION[phase][ASKED[kind]]
    if verdict in LET_IN:
        refuse(kind, "hello", phase, "op-1", rests=True)
        return
    with pytest.raises(Conflict) as refused:
        refuse(kind, "hello", phase, "op-1", rests=True)
    assert refused.value.facts == {"operation": "op-1", "state": phase}
    assert refused.value.do


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.DEGRADED])
def test_what_has_not_ended_keeps_others_out_whatever_the_phase(phase: Phase) -> None:
    with pytest.raises(Conflict) as refused:
        refuse(Kind.SCALE_NODE_POOL, "hello", phase, "op-1", rests=False)
    assert refused.value.reason == "CLUSTER_BUSY"
