"""Lines of logs: read from what runtimes write, chosen, and put in order."""

import pytest

from domain.errors import Invalid
from domain.happening import SECOND_NS, Happening, Interest, Kind
from domain.logline import Joiner, Line, Wanted, merged, moment, stamp, written

LOG = b"""2026-11-19T12:00:00.000000001+02:00 stdout F one
2026-11-19T10:00:00.5Z stderr P tw
2026-11-19T10:00:00.6Z stdout F three
2026-11-19T10:00:00.7Z stderr F o
torn
2026-11-19T10:00:01Z stdout F
2026-11-19T10:00:02.000000000Z stdout P no end"""

TEN = 1_795_082_400 * SECOND_NS


def test_parts_of_a_line_are_put_together() -> None:
    joiner = Joiner()
    assert list(joiner.read(LOG)) == [
        Line(TEN + 1, "stdout", "one"),
        Line(TEN + 600_000_000, "stdout", "three"),
        Line(TEN + 500_000_000, "stderr", "two"),
        Line(TEN + SECOND_NS, "stdout", ""),
    ]
    assert list(joiner.rest()) == [Line(TEN + 2 * SECOND_NS, "stdout", "no end")]
    assert not list(joiner.rest())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"10%\r20%\r30%", "10%\r20%\r30%"),
        (b"dos\r", "dos"),
        (b"a\x0bb\x0cc\x1cd", "a\x0bb\x0cc\x1cd"),
        ("a\u2028b\u0085c".encode(), "a\u2028b\u0085c"),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nowhere_else(said: bytes, text: str) -> None:
    """What stood behind a carriage return was lost. Of CRLF both belong to the end."""
    raw = b"2026-11-19T10:00:00Z stdout F " + said + b"\n"
    assert [line.text for line in Joiner().read(raw * 2)] == [text, text]


def test_what_is_written_is_read_again() -> None:
    line = Line(TEN + 7, "stderr", "a b  c")
    assert list(Joiner().read(written(line))) == [line]
    assert str(line) == "2026-11-19T10:00:00.000000007Z a b  c"
    assert moment(stamp(TEN + 7)) == TEN + 7


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-19T10:00:00", "2026-13-40T10:00:00Z"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert moment(text) is None


def lines(*seconds: float) -> list[Line]:
    return [Line(int(each * SECOND_NS), "stdout", str(each)) for each in seconds]


def test_r39_since_and_until_are_exclusive_and_the_last_lines_are_of_what_is_left() -> None:
    wanted = Wanted(since=1, until=4, lines=2)
    chosen = [line for line in lines(0.5, 1, 1.5, 2, 3.9, 4, 5) if wanted.covers(line)]
    assert [line.text for line in wanted.last(chosen)] == ["2", "3.9"]
    assert list(Wanted().last(chosen)) == chosen


def test_apps_are_merged_by_time() -> None:
    assert [each.text for each in merged([lines(1, 4), lines(2, 3), []])] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("wrong", [{"lines": -1}, {"since": -1}, {"since": 2, "until": 1}])
def test_what_cannot_be_meant_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        Wanted(**wrong).check()


@pytest.mark.parametrize("wrong", [{"since": -1}, {"since": 2, "until": 2}, {"until": -1}])
def test_times_of_events_that_cannot_be_meant_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid):
        Interest(**wrong).check()


EXITED = Happening(kind=Kind.POD_EXITED, id="p", name="web", time_ns=10 * SECOND_NS + 1)
INTERESTS: dict[str, tuple[Interest, bool]] = {
    "R-42 nothing asked": (Interest(), True),
    "R-42 all hold": (Interest(kinds=(Kind.POD_EXITED,), ids=("p",), names=("x", "web")), True),
    "R-42 another kind": (Interest(kinds=(Kind.POD_STARTED,), ids=("p",)), False),
    "R-42 a kind that there is not": (Interest(kinds=(None,)), False),
    "R-42 another id": (Interest(kinds=(Kind.POD_EXITED,), ids=("q",)), False),
    "R-42 another name": (Interest(ids=("p",), names=("x",)), False),
    "within the same second": (Interest(since=10), True),
    "before since": (Interest(since=11), False),
    "before until": (Interest(since=10, until=11), True),
    "at until": (Interest(until=10), False),
}


@pytest.mark.parametrize("case", INTERESTS)
def test_events_of_interest(case: str) -> None:
    interest, covers = INTERESTS[case]
    assert interest.covers(EXITED) is covers
