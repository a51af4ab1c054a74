"""Nodes and instances at the command line, asked of a real server with nobody at work behind it."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from domain.errand import What
from domain.instance import Phase
from domain.placement import Amounts
from store.engine import Database
from tests.cli.running import Windlass
from tests.store.dock import Dock


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The server is in this process, and complains of Temporal, which is away."""
    with capture_logs():
        yield


@pytest.fixture
async def dock(tmp_path: Path) -> AsyncIterator[Dock]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/windlass.db")
    dock = Dock(database)
    yield dock
    await dock.close()
    await database.close()


async def test_nodes_are_listed_closed_emptied_and_opened(
    real_windlass: Windlass, dock: Dock
) -> None:
    assert (await real_windlass("node", "list")).err == "there are no nodes\n"
    await dock.node("a", pool="edge", labels={"zone": "x"})
    await dock.steady()
    await dock.runs("web-1")
    shown = (await real_windlass("node", "list")).out
    for words in ("RUNNING", "edge", "10/100"):
        assert words in shown
    assert (await real_windlass("node", "cordon", "a")).out == "node a takes nothing new\n"
    drained = await real_windlass("node", "drain", "a", "--within", "30m", "-o", "json")
    document = json.loads(drained.out)
    assert (document["draining"], document["instances"], document["labels"]) == (
        True,
        1,
        {"zone": "x"},
    )
    assert "RUNNING, draining" in (await real_windlass("node", "list")).out
    assert (await real_windlass("node", "uncordon", "a", "-o", "name")).out == "node/a\n"
    assert "RUNNING  " in (await real_windlass("node", "list")).out
    missing = await real_windlass("node", "drain", "b")
    assert (missing.code, "there is no node b" in missing.err) == (4, True)
    wrong = await real_windlass("node", "drain", "a", "--within", "300h")
    assert (wrong.code, "within" in wrong.err) == (2, True)


async def test_an_instance_is_planned_created_steered_and_explained(
    real_windlass: Windlass, dock: Dock
) -> None:
    nowhere = await real_windlass("instance", "create", "web-1", "builtin:idle", "--plan")
    assert (nowhere.code, "no node has room" in nowhere.out) == (1, True)
    await dock.node("a", Amounts(cpu=50, memory=500, disk=9))
    await dock.node("b", Amounts(cpu=500, memory=500, disk=9))
    await dock.steady()
    typed = ("create", "web-1", "builtin:idle", "--port", "18080:80", "-e", "A=1", "--cpu", "90")
    plan = await real_windlass("instance", *typed, "--plan")
    assert plan.code == 0
    assert "it would go to b" in plan.out
    assert "lacks 43 cpu" in plan.out
    for wrong in (["--port", "80"], ["--restart", "maybe"]):
        assert (await real_windlass("instance", *typed, *wrong)).code == 2
    made = await real_windlass("instance", *typed, "--restart", "always", "-o", "json")
    assert json.loads(made.out)["status"] == "SCHEDULING"
    uid = (await dock.instances.get("default", "web-1")).uid
    await dock.settle(uid, What.PLACE)
    await dock.says(uid, Phase.RUNNING)
    shown = (await real_windlass("instance", "list", "--node", "b")).out
    for words in ("web-1", "RUNNING", "18080:80"):
        assert words in shown
    again = await real_windlass("instance", *typed)
    assert (again.code, "already exists and is running" in again.err) == (5, True)
    why = (await real_windlass("instance", "why", "web-1")).out
    assert why.startswith("instance web-1 is running on b")
    assert "nothing needs to be done" in why
    assert (await real_windlass("instance", "stop", "web-1")).out == "instance web-1 is stopping\n"
    await dock.done(uid, What.STOP, kept=True)
    assert (
        "do: windlass instance start web-1" in (await real_windlass("instance", "why", "web-1")).out
    )
    await real_windlass("instance", "start", "web-1")
    await real_windlass("instance", "destroy", "web-1")
    await dock.done(uid, What.DESTROY)
    watched = (await real_windlass("instance", "watch", "web-1")).out.splitlines()
    assert [line.split()[2] for line in watched] == [
        *("SCHEDULING", "SCHEDULED", "RUNNING", "STOPPING", "STOPPED"),
        *("STARTING", "DESTROYING", "TERMINATED"),
    ]
    waited = await real_windlass("instance", "destroy", "web-1", "--wait")
    assert waited.code == 0
    assert (await real_windlass("instance", "list")).err == "there are no instances\n"
    assert "TERMINATED" in (await real_windlass("instance", "list", "--all")).out
    unknown = await real_windlass("instance", "why", "web-2")
    assert (unknown.code, "there is no instance web-2" in unknown.err) == (4, True)
