"""What is locked can be installed, tomorrow too."""

import runpy
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parents[2] / "requirements"


@pytest.mark.parametrize("lock", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda lock: lock.stem)
def test_what_is_pinned_with_an_extra_is_pinned_without_it_too(lock: Path) -> None:
    text = lock.read_text()
    pinned = {line.split("==")[0] for line in text.splitlines() if "==" in line}
    assert {name.split("[")[0] for name in pinned} <= pinned
    assert "://" not in text, "a lock names hashes, no hosts"


def test_the_writer_of_locks_adds_the_bare_pin_with_the_same_hashes() -> None:
    with_bare_pins = runpy.run_path(str(REQUIREMENTS / "lock.py"))["with_bare_pins"]
    one = "six==1 \\\n    --hash=sha256:1\n"
    other = "==2 \\\n    --hash=sha256:2 \\\n    --hash=sha256:3\n"
    assert with_bare_pins(f"{one}sqlalchemy[asyncio]{other}") == (
        f"{one}sqlalchemy{other}sqlalchemy[asyncio]{other}"
    )
