"""`windlass exec`: whom it asks, and what it says when there is nobody. That it is answered is part
of tests/e2e."""

import pytest

from cli.exec import _read
from tests.cli.running import Windlass


@pytest.fixture
def windlass(real_windlass: Windlass) -> Windlass:
    return real_windlass


async def test_an_instance_has_a_name(windlass: Windlass) -> None:
    for name in ("shop", "acme/shop/1.0", "acme/shop/1.0/tele", "/".join("abcdefgh")):
        outcome = await windlass("exec", name, "ls")
        assert outcome.code == 2
        assert "write it DEVELOPER/APP/VERSION/OPERATOR/CLOUDLET" in outcome.err
    outcome = await windlass("exec", "acme/shop/1.0/tele/west/blue", "ls")
    assert outcome.code == 4
    assert "there is no acme/shop/1.0/tele/west/blue" in outcome.err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('{"exit_code": 3, "stdout": "x"}', (3, "x", "", False)),
        (
            '{"exit_code": 0, "stdout": "x", "stderr": "y", "cut": true}',
            (0, "x", "y", True),
        ),
        ("v=0 o=- 1 1 IN IP4", (0, "v=0 o=- 1 1 IN IP4\n", "", False)),
        ("7", (0, "7\n", "", False)),
    ],
)
def test_an_answer_is_read_or_shown(answer: str, told: tuple[int, str, str, bool]) -> None:
    assert _read(answer) == told
