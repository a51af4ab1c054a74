"""What one user may ask for in time, and how many streams stay open; others keep their own."""

import pytest

from api.access import CHANGE, JOIN, OPEN, READ, REPORT
from api.calls import CallLimits, Calls
from api.token_bucket import Rate
from domain.access import Permission, Principal, Role, Session
from domain.errors import Exhausted

FEW = CallLimits(
    streams_per_user=2, reads=Rate(per_second=0.01, burst=5), writes=Rate(0.01, burst=3)
)
ADA, BOB = (Session(principal=Principal(name=each, role=Role.ADMIN)) for each in ("ada", "bob"))


class Line:
    """A call from an address."""

    def __init__(self, address: str = "192.0.2.1") -> None:
        self._address = address

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def peer(self) -> str:
        return f"ipv4:{self._address}:4711"


def asked(calls: Calls, who: Session, permission: Permission, *, streams: bool = False) -> str:
    """What comes of one call: a reason, or nothing."""
    with calls.arriving("a.B/C", Line()) as arrived:
        arrived.recognise(who)
        try:
            arrived.spend(permission, streams=streams)
        except Exhausted as error:
            return error.reason
    return ""


def test_reads_and_changes_have_allowances_of_their_own() -> None:
    calls = Calls(FEW)
    assert [asked(calls, ADA, READ) for _ in range(6)] == [""] * 5 + ["RATE_LIMITED"]
    assert [asked(calls, ADA, CHANGE) for _ in range(4)] == [""] * 3 + ["RATE_LIMITED"]
    assert [asked(calls, ADA, JOIN) for _ in range(4)] == [""] * 4
    assert asked(calls, BOB, READ) == "", "who asks too much takes nothing from others"


def test_what_agents_report_is_not_counted() -> None:
    calls = Calls(FEW)
    assert {asked(calls, ADA, REPORT, streams=True) for _ in range(100)} == {""}


def test_who_is_not_known_is_counted_by_address() -> None:
    calls = Calls(FEW)
    with calls.arriving("a.B/C", Line()) as arrived:
        for _ in range(5):
            arrived.spend(OPEN, streams=False)
        with pytest.raises(Exhausted):
            arrived.spend(OPEN, streams=False)
    with calls.arriving("a.B/C", Line("192.0.2.2")) as arrived:
        arrived.spend(OPEN, streams=False)


def test_open_streams_are_counted_until_they_end() -> None:
    calls = Calls(FEW)
    with (
        calls.arriving("a.B/C", Line()) as first,
        calls.arriving("a.B/C", Line()) as second,
        calls.arriving("a.B/C", Line()) as third,
    ):
        for each in (first, second, third):
            each.recognise(ADA)
        first.spend(READ, streams=True)
        second.spend(READ, streams=True)
        with pytest.raises(Exhausted) as refused:
            third.spend(READ, streams=True)
        assert refused.value.reason == "TOO_MANY_CALLS"
        assert asked(calls, BOB, READ, streams=True) == ""
    assert calls.streams.total == 0
