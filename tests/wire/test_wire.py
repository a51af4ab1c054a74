"""The contracts are what existing clients speak, and `protos/gen` is what the contracts say."""

import importlib
import json
import pkgutil
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import protos.gen
from protos import compile as compiler
from tests.wire import check_wire

TABLES = Path(__file__).parent / "tables"

GENERATED = sorted(
    module.name for module in pkgutil.walk_packages(protos.gen.__path__, "protos.gen.")
)


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wire") / "build" / "descriptors.binpb"
    assert compiler.main(["--descriptors", str(target)]) == 0
    return target


@pytest.fixture
def gen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the generated code that a test may spoil."""
    copy = tmp_path / "gen"
    shutil.copytree(compiler.GEN, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiler, "GEN", copy)
    return copy


def test_the_wire_is_as_recorded(descriptors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line is also the only one: nothing differs, and nothing of ours was added."""
    assert check_wire.main([str(TABLES), str(descriptors)]) == 0
    assert capsys.readouterr().out.splitlines() == ["905 checked, 0 mismatches"]


def _fields(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in table["files"]:
        for message in file["messages"]:
            for field in message["fields"]:
                yield f"{message['name']}.{field['name']}", field


@pytest.mark.parametrize("table", sorted(path.name for path in TABLES.glob("*.json")))
def test_a_single_wrong_number_is_noticed(
    table: str, descriptors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = shutil.copytree(TABLES, tmp_path / "tables")
    spoilt = json.loads((tables / table).read_text())
    name, field = next(_fields(spoilt))
    field["number"] += 1000
    (tables / table).write_text(json.dumps(spoilt))

    assert check_wire.main([str(tables), str(descriptors)]) == 1
    difference, verdict = capsys.readouterr().out.splitlines()
    assert difference.startswith(f"field {name}: expected {field['number']} ")
    assert verdict == "905 checked, 1 mismatches"


def test_every_contract_has_code() -> None:
    homes = {name.split(".")[2] for name in GENERATED}
    assert homes == {contract.name for contract in compiler.contracts()}
    assert homes >= {"agent", "edge", "kaas", "koor", "kudo", "ops", "rkt"}


def test_all_generated_modules_live_in_one_process() -> None:
    """Two files of one path, or two messages of one name, would raise here."""
    for name in GENERATED:
        importlib.import_module(name)


def test_generated_code_is_what_a_fresh_compile_gives() -> None:
    assert compiler.differences() == []


def test_check_names_what_is_stale(gen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (gen / "kaas" / "api_pb2.py").write_text("# edited by hand\n")
    (gen / "rkt" / "api_pb2.pyi").unlink()
    (gen / "left_over_pb2.py").touch()

    assert compiler.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "protos/gen is stale, run `make protos`: "
        "kaas/api_pb2.py, left_over_pb2.py, rkt/api_pb2.pyi\n"
    )


def test_compiling_removes_what_is_stale(gen: Path) -> None:
    (gen / "kaas" / "api_pb2.py").write_text("# edited by hand\n")
    (gen / "gone").mkdir()
    (gen / "gone" / "left_over_pb2.py").touch()

    assert compiler.main([]) == 0
    assert compiler.main(["--check"]) == 0
    assert not (gen / "gone").exists()


def test_a_contract_that_does_not_compile_changes_nothing(
    gen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "protos" / "kaas" / "api.proto"
    broken.parent.mkdir(parents=True)
    broken.write_text('syntax = "proto3";\n\nmessage Cluster {\n')
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "PROTOS", tmp_path / "protos")
        assert compiler.main([]) == 1

    assert compiler.differences() == []
