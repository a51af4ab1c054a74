"""Who may come in: what is decided without looking anything up."""

from datetime import timedelta

import pytest

from domain import access
from domain.access import FREE_TRIES, LONGEST_WAIT
from domain.errors import Invalid


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("ada", True),
        ("Ada_L-9", True),
        ("a" * 24, True),
        ("ad", False),
        ("a" * 25, False),
        ("ada lovelace", False),
        ("ada\n", False),
        ("ädä", False),
        ("", False),
        ("anonymous", False),
    ],
)
def test_names_are_short_and_plain(name: str, good: bool) -> None:
    assert (access.misnamed(name) == []) is good


def test_whoever_guesses_waits_twice_as_long_each_time() -> None:
    waits = [access.wait(failures, FREE_TRIES) for failures in range(60)]
    assert not any(waits[:FREE_TRIES])
    assert waits[FREE_TRIES : FREE_TRIES + 3] == [timedelta(seconds=each) for each in (1, 2, 4)]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT


@pytest.mark.parametrize(
    ("mode", "addresses", "beyond", "is_open"),
    [
        ("", ("127.0.0.1:9020", "[::1]:8282"), False, True),
        ("", ("localhost:9020", "127.9.9.9:8282"), False, True),
        ("", ("127.0.0.1:9020", "0.0.0.0:8282"), False, False),
        ("", ("0.0.0.0:9020", "127.0.0.1:8282"), True, False),
        ("required", ("127.0.0.1:9020", "127.0.0.1:8282"), True, False),
        ("open", ("127.0.0.1:9020", "127.0.0.1:8282"), False, True),
        ("open", ("0.0.0.0:9020", "10.0.0.1:8282"), True, True),
        ("", ("windlass.example:9020",), False, False),
    ],
)
def test_only_loopback_is_open_unless_it_is_said_twice(
    mode: str, addresses: tuple[str, ...], beyond: bool, is_open: bool
) -> None:
    assert access.is_open(mode, addresses, beyond_loopback=beyond) is is_open


def test_open_to_all_has_to_be_said_twice() -> None:
    with pytest.raises(Invalid) as refused:
        access.is_open("open", ("0.0.0.0:9020",), beyond_loopback=False)
    assert refused.value.reason == "OPEN_TO_ALL"
