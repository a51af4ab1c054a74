"""How errors become statuses: the table is total, and what leaves is whole."""

from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from api.errors import CODES, code_of, packed, packed_bug
from domain import errors
from domain.errors import DomainError, Failure, Invalid, Unavailable, Violation
from domain.operation import Cancelled


def kinds(of: type[DomainError]) -> Iterator[type[DomainError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


def details(status: status_pb2.Status) -> list[str]:
    return [detail.type_url.rpartition(".")[2] for detail in status.details]


def info(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo.FromString(status.details[0].value)


def test_every_kind_of_error_has_a_code_of_its_own() -> None:
    assert set(CODES) == set(kinds(DomainError))
    assert len(set(CODES.values())) == len(CODES)
    assert {grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}.isdisjoint(
        CODES.values()
    )


@pytest.mark.parametrize("kind", errors.KINDS)
def test_an_error_leaves_with_its_reason_its_facts_and_what_to_do(kind: str) -> None:
    error = errors.KINDS[kind]("no", reason="SOME_REASON", do="do this", facts={"state": "x"})
    status = packed(error)
    assert (status.code, status.message) == (CODES[type(error)].value[0], "no")
    assert details(status)[0] == "ErrorInfo"
    assert details(status).count("ErrorInfo") == 1
    assert (info(status).reason, info(status).domain) == ("SOME_REASON", "windlass")
    assert dict(info(status).metadata) == {"state": "x", "do": "do this"}


@pytest.mark.parametrize("kind", errors.KINDS)
def test_a_failure_has_the_code_its_caller_would_have_got(kind: str) -> None:
    error = errors.KINDS[kind]("no")
    assert code_of(Failure.of(error)) is CODES[type(error)]


def test_what_was_called_off_is_cancelled_and_what_nobody_knows_has_failed() -> None:
    assert code_of(Cancelled.by("ann")) is grpc.StatusCode.CANCELLED
    assert code_of(Failure(kind="Strange", message="?")) is grpc.StatusCode.ABORTED


def test_only_what_may_work_later_says_when_to_try_again() -> None:
    assert details(packed(Unavailable("away"))) == ["ErrorInfo", "RetryInfo"]
    assert details(packed(Invalid("no"))) == ["ErrorInfo"]


def test_fields_that_are_wrong_are_named() -> None:
    wrong = [Violation(field="name", description="is required")]
    status = packed(Invalid("name: is required", violations=wrong))
    assert details(status) == ["ErrorInfo", "BadRequest"]
    bad = error_details_pb2.BadRequest.FromString(status.details[1].value)
    assert bad.field_violations[0].field == "name"


@pytest.mark.parametrize("letter", ["a", "é", "\x00", "🪢"])
def test_no_error_is_longer_than_trailers_may_be(letter: str) -> None:
    text = letter * 5000
    wrong = [Violation(field="f" * 60, description=text) for _ in range(500)]
    error = Invalid(
        text, do=text, facts={str(number): text for number in range(50)}, violations=wrong
    )
    status = packed(error)
    percent_encoded = 3 * len(status.message.encode())
    base64_encoded = 4 * len(status.SerializeToString()) / 3
    assert percent_encoded + base64_encoded < 7500
    assert "do" in info(status).metadata
    bad = error_details_pb2.BadRequest.FromString(status.details[1].value)
    assert "more that do not fit" in bad.field_violations[-1].description


def test_a_bug_says_where_to_look_and_nothing_else() -> None:
    status = packed_bug("r-1")
    assert status.message == "internal error; the log has it under request r-1"
    assert info(status).reason == "INTERNAL"
    assert dict(info(status).metadata) == {"request": "r-1"}
