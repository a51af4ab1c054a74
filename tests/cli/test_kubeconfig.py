import asyncio
import json
import os
import shutil
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import kubeconfig
from cli.complaints import Code, Complaint
from protos.gen.kaas import api_pb2 as kaas
from tests.cli.peer import Peer
from tests.cli.running import ROOT, Windlass


def document(name: str, server: str = "https://127.41.0.3:6443") -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-admin"}}],
            "users": [{"name": f"{name}-admin", "user": {"token": "x" * 4000}}],
            "current-context": name,
        }
    )


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def names(path: Path, field: str = "clusters") -> list[str]:
    return [entry["name"] for entry in read(path)[field]]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_merge_makes_file_and_folder_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    merged = kubeconfig.merge(path, document("hello"))
    assert merged == kubeconfig.Merged(context="hello", backup=None)
    assert names(path) == ["hello"]
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert os.listdir(path.parent) == ["config"]


def test_a_merge_keeps_the_rest_and_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "config"
    before = document("mine") + "# a note to myself\n"
    path.write_text(before)
    path.chmod(0o644)
    merged = kubeconfig.merge(path, document("hello"))
    assert merged.context == "mine"
    assert merged.backup == tmp_path / "config.windlass-backup"
    assert merged.backup.read_text() == before
    assert names(path) == ["mine", "hello"]
    assert mode(path) == mode(merged.backup) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["config", "config.windlass-backup"]


def test_the_current_context_changes_on_demand_only(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(document("mine"))
    kubeconfig.merge(path, document("hello"))
    assert read(path)["current-context"] == "mine"
    assert kubeconfig.merge(path, document("hello"), switch=True).context == "hello"
    assert read(path)["current-context"] == "hello"


def test_merging_the_same_again_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(document("mine"))
    first = kubeconfig.merge(path, document("hello"))
    assert first.backup is not None
    kept, written = first.backup.read_text(), path.stat().st_ino
    assert kubeconfig.merge(path, document("hello")).backup is None
    assert (first.backup.read_text(), path.stat().st_ino) == (kept, written)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "config"
    real.write_text(document("mine"))
    link.symlink_to(real)
    kubeconfig.merge(link, document("hello"))
    assert link.is_symlink()
    assert names(real) == ["mine", "hello"]


@pytest.mark.parametrize("content", [b"[1, 2]", b"a: [", b"\xff\xfe", b"clusters: 7\n"])
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(Complaint):
        kubeconfig.merge(path, document("hello"))
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["config"]


def test_a_lock_of_somebody_else_is_waited_for_and_never_taken_away(tmp_path: Path) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    lock.touch()
    with pytest.raises(Complaint, match="is locked by") as refusal:
        kubeconfig.merge(path, document("hello"), patience=0.1)
    assert refusal.value.code is Code.REFUSED
    assert lock.exists()
    assert not path.exists()
    threading.Timer(0.1, lock.unlink).start()
    kubeconfig.merge(path, document("hello"))
    assert names(path) == ["hello"]


def test_merges_at_the_same_time_all_arrive_and_nobody_reads_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(document("mine"))
    done, seen = threading.Event(), set()

    def look() -> None:
        while not done.is_set():
            seen.add(len(names(path)))  # fails on anything but a whole document

    with ThreadPoolExecutor() as threads:
        looking = threads.submit(look)
        merging = [
            threads.submit(kubeconfig.merge, path, document(f"c{number}")) for number in range(12)
        ]
        for each in merging:
            each.result()
        done.set()
        looking.result()
    assert sorted(names(path)) == sorted(["mine", *(f"c{number}" for number in range(12))])
    assert len(seen) > 1


async def test_processes_that_merge_at_the_same_time_all_arrive(tmp_path: Path) -> None:
    path = tmp_path / "config"
    script = (
        "import sys; from pathlib import Path; from cli import kubeconfig;"
        "kubeconfig.merge(Path(sys.argv[1]), sys.stdin.read())"
    )

    async def merge(name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script, str(path)), cwd=ROOT, stdin=asyncio.subprocess.PIPE
        )
        await process.communicate(document(name).encode())
        assert process.returncode == 0

    await asyncio.gather(*(merge(f"c{number}") for number in range(4)))
    assert sorted(names(path)) == ["c0", "c1", "c2", "c3"]


def test_a_folder_that_cannot_be_written_is_a_complaint(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    with pytest.raises(Complaint, match="cannot write"):
        kubeconfig.merge(blocker / "config", document("hello"))


def test_the_file_is_found_as_kubectl_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.default_path() == tmp_path / ".kube" / "config"
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("KUBECONFIG", f":{first}:{second}")
    assert kubeconfig.default_path() == second
    first.touch()
    assert kubeconfig.default_path() == first


@pytest.fixture
def site(peer: Peer) -> Peer:
    peer.clusters["hello"] = kaas.ClusterDetailItem(
        name="hello", status=kaas.RUNNING, kubeconfig=document("hello")
    )
    peer.clusters["young"] = kaas.ClusterDetailItem(
        name="young", status=kaas.PROVISIONING, status_message="create: 1/12 steps"
    )
    return peer


async def test_a_kubeconfig_is_printed_as_it_came(site: Peer, windlass: Windlass) -> None:
    assert (await windlass("cluster", "kubeconfig", "hello")).out == document("hello")
    as_json = await windlass("cluster", "kubeconfig", "hello", "-o", "json")
    assert json.loads(as_json.out) == yaml.safe_load(document("hello"))


async def test_a_kubeconfig_that_is_not_there_yet_is_refused(
    site: Peer, windlass: Windlass
) -> None:
    outcome = await windlass("cluster", "kubeconfig", "young")
    assert outcome.code == 5
    assert outcome.out == ""
    assert "cluster young has no kubeconfig yet" in outcome.err
    assert "create: 1/12 steps" in outcome.err


async def test_a_merge_says_where_it_went(
    site: Peer, windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(document("mine"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    outcome = await windlass("cluster", "kubeconfig", "hello", "--merge")
    assert outcome.out.splitlines() == [
        f"cluster hello is in {path}, and the current context is mine",
        f"  the file as it was: {path}.windlass-backup",
    ]
    other = tmp_path / "other"
    as_json = await windlass(
        "cluster", "kubeconfig", "hello", "--merge", "--use", "--file", str(other), "-o", "json"
    )
    assert json.loads(as_json.out) == {
        "name": "hello",
        "file": str(other),
        "backup": None,
        "current_context": "hello",
    }


@pytest.mark.parametrize("flag", [("--use",), ("--file", "x")])
async def test_what_belongs_to_a_merge_needs_one(
    site: Peer, windlass: Windlass, flag: tuple[str, ...]
) -> None:
    outcome = await windlass("cluster", "kubeconfig", "hello", *flag)
    assert outcome.code == 2
    assert "add --merge" in outcome.err


async def test_kubectl_reads_what_was_merged(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or shutil.which(
        "kubectl", path=os.path.dirname(sys.executable)
    )
    if kubectl is None:
        pytest.skip("there is no kubectl")
    path = tmp_path / "config"
    path.write_text(document("mine"))
    kubeconfig.merge(path, document("hello"), switch=True)
    process = await asyncio.create_subprocess_exec(
        *(kubectl, "config", "get-contexts", "-o", "name", "--kubeconfig", str(path)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert out.decode().split() == ["hello", "mine"]
