"""What pods write is copied whole, however often their logs begin anew meanwhile."""

from pathlib import Path

import pytest

from agent.archive import Archive
from agent.ledger import Ledger
from agent.runtime import APP
from agent.shim import ASIDE, Log
from domain.logline import Joiner


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    ledger = Ledger(None)
    return Archive(tmp_path / "logs", ledger, lambda: None, most_bytes=10**6)


def copied(archive: Archive, pod: str = "a") -> list[str]:
    """Everything there is of a pod, piece by piece."""
    found, after = [], 0
    while chunks := archive.chunks(pod, APP, after):
        found += [line.text for chunk in chunks for line in Joiner().read(chunk.lines)]
        after = chunks[-1].end
    return found


def test_a_log_that_is_full_is_begun_anew_and_the_last_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path), most_bytes=1000)
    lines = [f"line {number}" for number in range(100)]
    for line in lines:
        log.take("stdout", f"{line}\n".encode())
    aside = path.with_name(path.name + ASIDE)
    assert 0 < path.stat().st_size <= 1000
    assert 500 < aside.stat().st_size <= 1000
    kept = [line.text for each in (aside, path) for line in Joiner().read(each.read_bytes())]
    assert kept == lines[-len(kept) :]
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["log", "log.1"]


def test_one_line_that_is_more_than_a_log_holds_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path), most_bytes=10)
    log.take("stdout", b"longer than that\n")
    assert [line.text for line in Joiner().read(path.read_bytes())] == ["longer than that"]


def test_what_a_pod_writes_while_its_log_turns_is_copied_once(
    tmp_path: Path, archive: Archive
) -> None:
    path = tmp_path / "log"
    log = Log(str(path), most_bytes=1000)
    archive.watch("a", path)
    lines = [f"line {number}" for number in range(200)]
    for number, line in enumerate(lines):
        log.take("stdout", f"{line}\n".encode())
        if number % 15 == 0:  # more often than a log is full
            archive.finish("a")
            archive.watch("a", path)
    archive.finish("a")
    assert copied(archive) == lines


def test_an_agent_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    path, ledger = tmp_path / "log", Ledger(None)
    log = Log(str(path), most_bytes=1000)
    lines = [f"line {number}" for number in range(30)]
    for at in (0, 10, 20):  # the log turns between two of them
        archive = Archive(tmp_path / "logs", ledger, lambda: None, most_bytes=10**6)
        for line in lines[at : at + 10]:
            log.take("stdout", f"{line}\n".encode())
        archive.watch("a", path)
        archive.finish("a")
    assert path.with_name(path.name + ASIDE).exists()
    assert copied(archive) == lines


def test_a_log_that_a_runtime_replaced_is_copied_from_its_beginning(
    tmp_path: Path, archive: Archive
) -> None:
    """As podman does with one that is full: nothing is put aside, and the new one may be longer."""
    path = tmp_path / "log"
    Log(str(path)).take("stdout", b"before\n")
    archive.watch("a", path)
    archive.finish("a")
    archive.watch("a", path)
    anew = tmp_path / "new"
    Log(str(anew)).take("stdout", b"after\n" * 10)
    anew.replace(path)
    archive.finish("a")
    assert copied(archive) == ["before", *["after"] * 10]


def test_what_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    ledger = Ledger(None)
    archive = Archive(tmp_path / "logs", ledger, lambda: None, most_bytes=10**6)
    path = tmp_path / "log"
    Log(str(path)).take("stdout", b"x\n")
    archive.watch("a", path)
    archive.finish("a")
    assert ledger.remembered("log/a")
    archive.forget("a")
    assert copied(archive) == []
    assert not ledger.remembered("log/a")
    assert list((tmp_path / "logs").iterdir()) == []
