"""What our processes write is for nobody else to read, and they say so if they find otherwise."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from logs import exposed, keep_private
from settings import Settings
from tests.cli.running import spawned
from tests.programs.running import ended, surroundings


def modes(folder: Path) -> dict[str, int]:
    """Who may have what lies in a folder, and the folder."""
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in found}


@pytest.fixture
def as_usual() -> Iterator[None]:
    """Programs are started as by somebody who lets others read, and leave that as it was."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("as_usual")
async def test_databases_and_keys_are_made_for_their_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment = surroundings(WINDLASS_STATE=str(state), WINDLASS_LOG_FORMAT="json")
    for words in (("migrate",), ("administrator",), ("key", "next")):
        gone = await ended("-m", "store", *words, environment=environment)
        assert gone.code == 0 or words[0] == "key", gone.err
    found = modes(state)
    assert "windlass.db" in found
    assert not {path: oct(mode) for path, mode in found.items() if mode & 0o077}


@pytest.mark.usefixtures("as_usual")
async def test_what_others_can_read_is_found(tmp_path: Path) -> None:
    state, key = tmp_path / "state", tmp_path / "seal.key"
    state.mkdir(mode=0o755)
    (state / "windlass.db").touch()
    (state / "private").touch(mode=0o600)
    key.touch(mode=0o640)
    settings = Settings(
        state=state, database=f"sqlite+aiosqlite:///{state}/windlass.db", key_file=key
    )
    assert exposed(settings) == [state, state / "windlass.db"], "a key may be its group's"
    key.chmod(0o644)
    assert key in exposed(settings)
    for path in (state, state / "windlass.db", key):
        path.chmod(path.stat().st_mode & ~0o077)
    assert exposed(settings) == []


@pytest.mark.usefixtures("as_usual")
def test_a_process_warns_of_it_and_keeps_the_rest_to_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o755)
    settings = Settings(state=tmp_path, database="postgresql+asyncpg://db.example/w")
    keep_private(settings)
    said = capfd.readouterr()
    assert "others can read" in said.out + said.err
    assert f"chmod -R go= {tmp_path}" in said.out + said.err
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "file").write_text("x")
    assert modes(tmp_path / "fresh") == {".": 0o700, "file": 0o600}


async def test_the_doctor_names_what_others_can_read(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for mode, word in ((0o755, "warn"), (0o700, "ok")):
        state.chmod(mode)
        process = await spawned("doctor", "-o", "json", WINDLASS_STATE=str(state))
        out, _ = await process.communicate()
        found = {each["check"]: each for each in json.loads(out)["items"]}["privacy"]
        assert found["state"] == word
        assert (str(state) in found["detail"]) is (word == "warn")
