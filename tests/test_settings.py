"""Who moves `state` moves what is kept there; and every value can be traced to who said it."""

from pathlib import Path

import pytest

from settings import BELOW_STATE, Settings, origins


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state that somebody moved, and nothing else said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_STATE", str(tmp_path / "moved"))
    return tmp_path / "moved"


def told(settings: Settings) -> dict[str, tuple[str, str]]:
    """Value and origin of what lies below `state`."""
    return {
        each.name: (each.value, each.origin)
        for each in origins(settings)
        if each.name in BELOW_STATE
    }


def test_everything_lies_in_one_folder_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_STATE", raising=False)
    assert told(Settings()) == {
        "database": ("sqlite+aiosqlite:///.windlass/windlass.db", "default"),
        "key_file": (".windlass/seal.key", "default"),
        "maas.api_key_file": (".windlass/maas.key", "default"),
    }


def test_whoever_moves_the_state_moves_all_of_it(state: Path) -> None:
    assert told(Settings()) == {
        "database": (f"sqlite+aiosqlite:///{state}/windlass.db", "state"),
        "key_file": (f"{state}/seal.key", "state"),
        "maas.api_key_file": (f"{state}/maas.key", "state"),
    }


def test_what_was_given_a_place_stays_there(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_KEY_FILE", "kept/seal.key")
    monkeypatch.setenv("WINDLASS_MAAS__URL", "http://maas.example/MAAS/")
    (tmp_path / "windlass.toml").write_text('database = "postgresql+asyncpg://db.example/w"\n')
    assert told(Settings()) == {
        "database": ("postgresql+asyncpg://db.example/w", "file"),
        "key_file": ("kept/seal.key", "environment"),
        "maas.api_key_file": (f"{state}/maas.key", "state"),
    }


def test_the_file_may_move_the_state_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_STATE", raising=False)
    (tmp_path / "windlass.toml").write_text('state = "moved"\nmaas.api_key_file = "other.key"\n')
    assert told(Settings()) == {
        "database": ("sqlite+aiosqlite:///moved/windlass.db", "state"),
        "key_file": ("moved/seal.key", "state"),
        "maas.api_key_file": ("other.key", "file"),
    }
