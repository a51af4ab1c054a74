"""Who moves `state` moves what is kept there; and every value can be traced to who said it."""

from pathlib import Path

import pytest

from cli.origins import origins
from domain.errors import Invalid
from domain.releases import CATALOGUE
from offer import catalogue
from settings import Settings
from systems import BELOW_STATE
from tests.architecture.tree import ROOT


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
        "backups": (".windlass/backups", "default"),
        "maas.api_key_file": (".windlass/maas.key", "default"),
        "ceph.password_file": (".windlass/ceph.password", "default"),
    }


def test_whoever_moves_the_state_moves_all_of_it(state: Path) -> None:
    assert told(Settings()) == {
        "database": (f"sqlite+aiosqlite:///{state}/windlass.db", "state"),
        "key_file": (f"{state}/seal.key", "state"),
        "backups": (f"{state}/backups", "state"),
        "maas.api_key_file": (f"{state}/maas.key", "state"),
        "ceph.password_file": (f"{state}/ceph.password", "state"),
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
        "backups": (f"{state}/backups", "state"),
        "maas.api_key_file": (f"{state}/maas.key", "state"),
        "ceph.password_file": (f"{state}/ceph.password", "state"),
    }


def test_the_file_may_move_the_state_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_STATE", raising=False)
    (tmp_path / "windlass.toml").write_text('state = "moved"\nmaas.api_key_file = "other.key"\n')
    assert told(Settings()) == {
        "database": ("sqlite+aiosqlite:///moved/windlass.db", "state"),
        "key_file": ("moved/seal.key", "state"),
        "backups": ("moved/backups", "state"),
        "maas.api_key_file": ("other.key", "file"),
        "ceph.password_file": ("moved/ceph.password", "state"),
    }


def named(path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with this catalogue."""
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("WINDLASS_CATALOGUE", str(path))
    return Settings()


def test_without_a_file_the_catalogue_is_the_one_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_CATALOGUE", raising=False)
    assert catalogue(Settings()) == CATALOGUE


def test_the_catalogue_in_the_documents_is_the_one_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, rest = (ROOT / "docs" / "settings.md").read_text().partition("# catalogue.toml\n")
    path = tmp_path / "catalogue.toml"
    path.write_text(rest.partition("```")[0])
    assert catalogue(named(path, monkeypatch)) == CATALOGUE


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("default = 1.32", ["releases: Field required", "default: Input should be a valid string"]),
        ("default = \n", ["Invalid value (at line 1, column 11)"]),
        (
            'default = "1.32.1"\nreleases = [{ version = "1.32.1" }]',
            ["releases: entry 1: series: Field required"],
        ),
        (
            'default = "1.32.1"\nreleases = [{ version = "1.32.1", series = "jammy", os = "u" }]',
            ["releases: entry 1: os: Extra inputs are not permitted"],
        ),
        (
            'default = "1.32.1"\nreleases = [{ version = "1.32", series = "jammy" }]',
            ["releases: entry 1 of releases: version: '1.32' is not a version such as 1.31.4"],
        ),
        (
            'default = "1.31.4"\nreleases = [{ version = "1.32.1", series = "jammy" }]',
            ["default: '1.31.4' is the version of no entry of releases"],
        ),
    ],
)
def test_a_catalogue_that_is_wrong_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, wrong: list[str]
) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(text)
    with pytest.raises(Invalid) as caught:
        catalogue(named(path, monkeypatch))
    assert caught.value.message.splitlines()[0] == f"the catalogue {path} is not valid"
    assert [line.strip() for line in caught.value.message.splitlines()[1:]] == wrong
    assert "WINDLASS_CATALOGUE" in caught.value.do


def test_a_catalogue_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid, match="No such file or directory"):
        catalogue(named(tmp_path / "none.toml", monkeypatch))
