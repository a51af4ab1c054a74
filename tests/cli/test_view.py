import io
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from cli import view
from cli.printing import tame
from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import at, operation, step, told

NOW = at(130.5)


def drawn(picture: view.View, now: datetime = NOW, *, everything: bool = False) -> str:
    paper = Console(file=io.StringIO(), width=100, color_system=None)
    paper.print(view.render(picture, now, everything=everything))
    assert isinstance(paper.file, io.StringIO)
    return paper.file.getvalue()


def fleet(done: int, under_way: int, planned: int) -> view.View:
    def lane(subject: str, begun: bool, ended: bool) -> list[ops.Step]:
        state = ops.DONE if ended else ops.ACTIVE if begun else ops.PENDING
        return [
            step("machines.allocate", subject, ops.DONE if begun else ops.PENDING, 1, 2),
            step("machines.deploy", subject, state, 2, 60 if ended else None, attempts=1),
        ]

    steps = [each for n in range(done) for each in lane(f"done-{n}", True, True)]
    steps += [each for n in range(under_way) for each in lane(f"busy-{n}", True, False)]
    steps += [each for n in range(planned) for each in lane(f"next-{n}", False, False)]
    return view.View(operation("op-1", percent=42), steps)


def test_a_picture_shows_what_is_under_way(snapshot: SnapshotAssertion) -> None:
    running = operation("op-1", percent=42, waiting_on="release m7: MAAS answered 503")
    running.eta.FromTimedelta(timedelta(seconds=185))
    running.cancel_requested = True
    picture = view.View(
        running,
        [
            step("endpoints.ensure", "hello.windlass.test", ops.DONE, 1, 2, attempts=1),
            step("machines.allocate", "control-plane-bcdfg", ops.DONE, 2, 3.5, attempts=1),
            step("machines.deploy", "control-plane-bcdfg", ops.ACTIVE, 3.5, attempts=2),
            step("kubeadm.join", "control-plane-bcdfg", ops.PENDING),
            step(
                "machines.release", "worker-a-x7k2p", ops.STUMBLED, 90, attempts=3, note="503",
                undo=True,
            ),
            step("machines.allocate", "worker-a-hjklm", ops.PENDING),
        ],
        lost="connection lost, trying again in 0.4 s",
    )  # fmt: skip
    assert drawn(picture) == snapshot


def test_a_picture_of_what_failed_says_why(snapshot: SnapshotAssertion) -> None:
    assert drawn(view.View.of(told("op-1", end=ops.FAILED).operation), everything=True) == snapshot


def test_a_picture_fits_on_a_screen_however_large_the_fleet(snapshot: SnapshotAssertion) -> None:
    picture = drawn(fleet(done=400, under_way=8, planned=92))
    assert picture == snapshot
    assert len(drawn(fleet(done=400, under_way=400, planned=92)).splitlines()) < 40


def test_everything_is_shown_to_those_who_ask() -> None:
    picture = drawn(fleet(done=40, under_way=1, planned=9), everything=True)
    assert all(f"{name}-{n}" in picture for name, n in [("done", 39), ("busy", 0), ("next", 8)])


def test_hearing_an_event_twice_changes_nothing() -> None:
    once, twice = (view.View.of(operation("op-1")) for _ in range(2))
    for event in told("op-1").events:
        once.hear(event)
        twice.hear(event)
        twice.hear(event)
    assert once == twice
    assert drawn(once) == drawn(twice)


def test_a_step_planned_twice_is_done_twice() -> None:
    words = ("endpoints.ensure", "hello.windlass.test")
    turns = [step(*words, ops.PENDING, turn=turn) for turn in (1, 2)]
    picture = view.View(operation("op-1"), turns)
    picture.hear(ops.OperationEvent(number=1, step=step(*words, ops.DONE, 1, 2, turn=1)))
    assert [each.state for each in picture.steps] == [ops.DONE, ops.PENDING]
    again = ops.OperationEvent(number=2, step=step(*words, ops.DONE, 2, 3, turn=2))
    picture.hear(again)
    assert [each.state for each in picture.steps] == [ops.DONE, ops.DONE]
    assert "endpoints.ensure #2" in view.line(again)


def test_hearing_anything_means_that_nothing_is_lost() -> None:
    picture = view.View(operation("op-1"), lost="connection lost")
    picture.hear(ops.OperationEvent(number=1))
    assert picture.lost == ""


def test_time_never_runs_backwards() -> None:
    assert view.elapsed(operation("op-1"), at(-60)) == timedelta()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0.0 s"), (4.12, "4.1 s"), (9.99, "10.0 s"), (59.4, "59 s"), (59.6, "1 m 00 s")),
        *((130, "2 m 10 s"), (3599.7, "1 h 00 m"), (3900, "1 h 05 m"), (90000, "25 h 00 m")),
    ],
)
def test_spans_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert view.duration(timedelta(seconds=seconds)) == said


def test_every_state_of_a_step_has_a_mark_and_a_word() -> None:
    assert view.MARKS.keys() == view.WORDS.keys() == set(ops.StepState.values())


@given(st.text())
def test_no_text_steers_a_terminal(text: str) -> None:
    assert tame(text).isprintable()
    assert len(tame(text)) == len(text)
