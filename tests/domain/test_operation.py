from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import Phase
from domain.errors import Failure
from domain.operation import (
    ACTIVE,
    Brief,
    Cancelled,
    Kind,
    OperationId,
    Reached,
    Stage,
    StepKey,
)

OPERATION = OperationId("one")

words = st.from_regex(r"[a-z_]+\.[a-z_]+", fullmatch=True)
names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,80}[a-z0-9])?", fullmatch=True)
step_keys = st.builds(
    StepKey, verb=words, subject=names, turn=st.integers(1, 10_000), undo=st.booleans()
)


@given(step_keys)
def test_a_step_is_known_again_by_its_words(key: StepKey) -> None:
    assert StepKey.parse(str(key)) == key


@given(step_keys, step_keys)
def test_no_two_steps_have_the_same_words(one: StepKey, other: StepKey) -> None:
    assert (str(one) == str(other)) is (one == other)


def test_a_step_reads_like_a_sentence() -> None:
    key = StepKey(verb="machines.release", subject="pool-bcdfg", turn=2, undo=True)
    assert str(key) == "undo machines.release pool-bcdfg #2"


def test_an_operation_holds_its_subject_until_it_is_over_or_pushed_aside() -> None:
    assert {Stage.REQUESTED, Stage.RUNNING} == ACTIVE


def test_an_end_is_good_or_bad_or_called_off() -> None:
    well = Reached.well(OPERATION, Phase.RUNNING, "ready")
    assert (well.stage, well.phase, well.note) == (Stage.SUCCEEDED, Phase.RUNNING, "ready")
    failure = Failure(kind="Exhausted", message="no machines")
    badly = Reached.badly(OPERATION, Phase.ERROR, failure)
    assert (badly.stage, badly.note, badly.failure) == (Stage.FAILED, "no machines", failure)
    off = Reached.badly(OPERATION, None, Cancelled.by("ann"))
    assert (off.stage, off.phase, off.note) == (Stage.CANCELLED, None, "cancelled by ann")


def test_a_bad_end_has_undone_what_was_begun_unless_nobody_did() -> None:
    failure = Failure(kind="Failed", message="no")
    assert Reached.badly(OPERATION, Phase.ERROR, failure).undone
    assert not Reached.badly(OPERATION, Phase.ERROR, failure, undone=False).undone
    assert not Reached.well(OPERATION, Phase.RUNNING, "ready").undone


def test_what_a_newer_writer_added_is_ignored() -> None:
    brief = Brief(operation=OPERATION, kind=Kind.CREATE_CLUSTER, plan="{}")
    newer = brief.model_dump() | {"added_later": 1}
    assert Brief.model_validate(newer) == brief
