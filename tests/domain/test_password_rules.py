"""Which passwords may be set."""

import secrets

import pytest

from domain.password_rules import BITS, bits, mismeasured, weak

GUESSED = (
    *("123456", "secret", "Sommer2024!", "sommer2024!", "SommerWinter2024!", "sommerwinter"),
    *("correct horse", "monkey dragon", "Hallo Welt 2025", "Berlin-2024-Winter"),
    *("qwertzuiop1", "qwertyuiop[]", "asdfghjkl;", "1qaz2wsx3edc", "!QAZ2wsx#EDC", "zxcvbnm,./1"),
    *("password123", "P@ssw0rd2024!", "Passw0rdPassw0rd", "MeinPasswort1!", "letmein2024!!"),
    *("aaaaaaaaaaaa", "abcabcabcabc", "123456789012", "9876543210", "01.02.1990", "admin!admin!"),
    *("administrator", "windlass-admin", "Admin1234!@#$", "alexander1999", "tulvokarim"),
    *("", "ß" * 40, "\ud800" * 10),
)


@pytest.mark.parametrize("password", GUESSED, ids=range(len(GUESSED)))
def test_what_is_short_or_commonly_chosen_is_refused(password: str) -> None:
    (found,) = weak(password)
    assert found.field == "password"
    assert not password or password not in found.description


@pytest.mark.parametrize(
    "password", ["correct horse battery staple", "Xk9#mQ2vLp", "lamp-otter-violin-gravel"]
)
def test_what_takes_long_to_guess_may_be_set(password: str) -> None:
    assert weak(password) == []


def test_generated_passwords_may_be_set() -> None:
    assert not [each for _ in range(500) if weak(each := secrets.token_urlsafe(18))]


def test_the_name_of_the_user_counts_little() -> None:
    assert bits("margarethe!x9", "margarethe") < bits("margarethe!x9") < BITS


def test_a_longest_password_is_one_of_so_many_bytes() -> None:
    generated = secrets.token_hex(40)
    assert weak(generated[:70]) == []
    assert weak(generated[:71])
    assert not mismeasured(generated[:70])


def test_a_password_of_an_earlier_release_still_signs_in() -> None:
    assert mismeasured("secret") == []
    assert mismeasured("")
    assert mismeasured("x" * 71)
