import pytest

from domain.errors import KINDS, AlreadyExists, DomainError, Failed, Failure, Invalid, Violation
from domain.operation import Cancelled

kinds = pytest.mark.parametrize("kind", list(KINDS.values()))


def test_every_kind_is_known_by_its_name() -> None:
    assert set(KINDS.values()) == set(DomainError.__subclasses__())
    assert all(kind.__name__ == name for name, kind in KINDS.items())


def test_every_kind_has_a_word_of_its_own_for_programs() -> None:
    words = {kind.usual_reason for kind in KINDS.values()}
    assert len(words) == len(KINDS)
    assert DomainError.usual_reason not in words


@kinds
def test_an_error_carries_what_a_caller_needs(kind: type[DomainError]) -> None:
    facts = {"wanted": "3"}
    error = kind("no", subject="blue", do="ask for less", facts=facts)
    assert str(error) == error.message == "no"
    assert (error.kind, error.subject, error.do) == (kind.__name__, "blue", "ask for less")
    assert error.reason == kind.usual_reason
    facts.clear()
    assert error.facts == {"wanted": "3"}
    assert kind("no", reason="SPECIAL").reason == "SPECIAL"
    assert kind("no").facts == {}


@kinds
def test_an_error_read_back_from_a_row_is_what_it_was(kind: type[DomainError]) -> None:
    failure = Failure.of(kind("no", reason="SPECIAL"))
    error = Failure.model_validate_json(failure.model_dump_json()).error()
    assert type(error) is kind
    assert (error.message, error.reason) == ("no", "SPECIAL")


def test_a_kind_that_is_no_longer_known_is_failed() -> None:
    error = Failure(kind="Bewitched", message="no").error()
    assert type(error) is Failed
    assert error.reason == "FAILED"


def test_what_was_called_off_says_by_whom() -> None:
    assert Cancelled.by("ann").message == "cancelled by ann"


def test_an_invalid_request_carries_every_violation() -> None:
    wrong = (Violation(field="name", description="too long"),) * 2
    assert Invalid("no", violations=iter(wrong)).violations == wrong
    assert Invalid("no").violations == ()


def test_errors_are_caught_by_their_root() -> None:
    with pytest.raises(DomainError):
        raise AlreadyExists("blue already exists")
