"""From a folder with nothing in it to a cluster that kubectl talks to, as a newcomer does it."""

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.site import Place
from tests.sim.region import Caller

KUBECTL = str(Path(sys.executable).with_name("kubectl"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def switched_off(place: Place, node: str) -> None:
    """Somebody pulls the plug of a node's machine."""
    key = (place.folder / ".windlass" / "maas.key").read_text().strip()
    caller = Caller(place.env["WINDLASS_MAAS__URL"], key)
    try:
        for machine in (await caller("GET", "machines/")).json():
            if machine["workload_annotations"].get("kaas-machine") == node:
                reply = await caller("POST", f"machines/{machine['system_id']}/?op=power_off")
                reply.raise_for_status()
    finally:
        await caller.http.aclose()


def held(place: Place) -> dict[str, list[str]]:
    """What we have made in the simulated Ceph."""
    url = place.env["WINDLASS_MAAS__URL"].replace("/MAAS/", "/site/invariants")
    found: dict[str, list[str]] = httpx2.get(url, trust_env=False).json()["ceph"]
    return found


def seen(place: Place, *words: str, until: Callable[[Any], bool]) -> Any:
    """What is shown of Ceph, once a look has shown that: it was down as long as the site was."""
    for _ in range(40):
        told = json.loads(place.run("storage", *words, "-o", "json").stdout)
        if until(told):
            break
        time.sleep(0.5)
    return told


def ready(place: Place, count: int) -> str:
    """What kubectl says of the nodes, of which so many are Ready."""
    nodes = place.other(KUBECTL, "get", "nodes")
    assert nodes.returncode == 0, nodes.stderr
    assert nodes.stdout.count(" Ready ") == count, nodes.stdout
    return nodes.stdout


def comes_and_goes_with_its_data(place: Place) -> None:
    """A cluster with a pool of Ceph, which is deleted only when that is said."""
    created = place.run("cluster", "create", "blue", "--storage", "--wait")
    assert created.returncode == 0, created.stderr
    [pool] = held(place)["pools"]
    assert held(place)["users"] == [f"client.{pool.removesuffix('-rbd')}-csi"]
    asked = place.run("cluster", "delete", "blue", "--yes", "--wait")
    assert f"in the pool {pool}" in asked.stderr
    deleted = place.run("cluster", "delete", "blue", "--yes", "--delete-data", "blue", "--wait")
    assert deleted.returncode == 0, deleted.stderr
    assert held(place) == {"pools": [], "users": [], "switches": []}


@pytest.mark.timeout(240)
def test_one_command_brings_up_a_cluster_that_kubectl_can_use(place: Place) -> None:
    with place.up() as site:
        site.until("^up\\. Ctrl-C")
        assert "3 nodes Ready" in site.said
        assert "tick 3 from a node" in site.said
        assert "app ticker runs on the nodes of the cloudlet tele/nodes" in site.said
        assert "ticker-" in place.run("instance", "list").stdout
        assert "RUNNING" in place.run("pod", "list", "--instance", "hello").stdout
        for name in ("gRPC", "HTTP", "Temporal UI", "MAAS"):
            assert name in site.said

        (place.home / ".kube").mkdir()
        (place.home / ".kube" / "config").write_text("apiVersion: v1\nkind: Config\n")
        merged = place.run("cluster", "kubeconfig", "hello", "--merge", "--use")
        assert merged.returncode == 0, merged.stderr
        assert "control-plane" in ready(place, 3)
        assert list((place.home / ".kube").glob("*backup*")), "no backup of what was there"

        assert "app shop runs on the cloudlets tele/west, tele/east" in site.said
        said = place.run("exec", "acme/shop/1.0/tele/east", "--", "echo", "hello")
        assert (said.returncode, said.stdout) == (0, "hello\n"), said.stderr
        said = place.run("exec", "acme/shop/1.0/tele/west", "--", "exit", "3")
        assert said.returncode == 3, said.stderr

        added = place.run("pool", "add", "hello", "more=1", "--wait")
        assert added.returncode == 0, added.stderr
        assert "more-" in ready(place, 4)
        dropped = place.run("pool", "delete", "hello", "more", "--wait")
        assert dropped.returncode == 0, dropped.stderr
        nodes = ready(place, 3)
        assert "more-" not in nodes

        worker = next(line.split()[0] for line in nodes.splitlines() if " worker " in line)
        asyncio.run(switched_off(place, worker))
        mended = place.run("cluster", "repair", "hello", "--node", worker, "--wait")
        assert mended.returncode == 0, mended.stderr
        assert "1 node mended" in mended.stdout
        ready(place, 3)
        assert "nothing needs to be done" in place.run("cluster", "why", "hello").stdout

        second = place.run("up")
        assert second.returncode == 1
        assert second.stderr.startswith("error: windlass is up already in this folder")
        assert "do:" in second.stderr

        doctor = place.run("doctor", "-o", "json")
        assert json.loads(doctor.stdout)["ok"], doctor.stdout

        site.process.send_signal(signal.SIGINT)
        site.rest()
        assert site.process.wait() == 0

    with place.up() as again:
        again.until("^up\\. Ctrl-C")
        assert "hello is here already: RUNNING" in again.said
        ready(place, 3)
        status = seen(place, "status", until=lambda told: told["status"] == "HEALTH_OK")
        assert (status["status"], status["osd"]["up"]) == ("HEALTH_OK", 6)
        home = seen(place, "upgrade", until=lambda told: bool(told["kube"]))
        assert (home["kube"], home["nodes"]) == ("1.32.1", "3")
        comes_and_goes_with_its_data(place)
        deleted = place.run("cluster", "delete", "hello", "--yes", "--wait")
        assert deleted.returncode == 0, deleted.stderr
        gone = place.run("cluster", "get", "hello")
        assert gone.returncode == 4
        assert "CLUSTER_NOT_FOUND" in gone.stderr


def test_a_port_that_is_taken_is_named_with_the_setting_that_moves_it(place: Place) -> None:
    with socket.socket() as taken:
        host, port = place.env["WINDLASS_GRPC_ADDRESS"].split(":")
        taken.bind((host, int(port)))
        taken.listen()
        refused = place.run("up")
    assert refused.returncode == 1
    assert f"api cannot listen on {host}:{port}" in refused.stderr
    assert "WINDLASS_GRPC_ADDRESS" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_folder_that_cannot_be_written_is_named(place: Place) -> None:
    (place.folder / "file").write_text("not a folder")
    refused = place.run("up", WINDLASS_STATE="file/state")
    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr
    assert "WINDLASS_STATE" in refused.stderr


def test_a_missing_program_is_named_with_what_installs_it(place: Place, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "python").symlink_to(sys.executable)
    program = "import sys; sys.executable = sys.argv.pop(); from cli.__main__ import main; main()"
    refused = place.other(sys.executable, "-c", program, "up", str(bare / "python"), PATH=str(bare))
    assert refused.returncode == 1
    assert "the program temporal is missing" in refused.stderr
    assert "make .venv" in refused.stderr
