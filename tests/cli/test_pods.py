"""What runs on nodes, asked of a real server that nodes have told."""

import json
import time
from pathlib import Path

from domain.happening import SECOND_NS, Happening, Kind
from domain.logline import Chunk, Line, written
from domain.pod import App, AppState, Image, Network, Pod, PodState, pod_id
from domain.report import Item, LogPiece, Report, Told
from store.engine import Database
from store.window import FleetWindow
from tests.cli.running import Windlass

NOW = time.time_ns()
POD = pod_id("", "web-1", 1)
IMAGE = Image(id="sha512-" + "a" * 64, name="windlass.local/web", size=2_100_000, manifest="{}")


async def told(tmp_path: Path, *what: Told) -> None:
    """A node has reported this."""
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/windlass.db")
    window = FleetWindow(database, log_bytes=10**6)
    items = tuple(Item(number=number, what=each) for number, each in enumerate(what, start=1))
    await window.take(Report(node="n1", epoch="e", items=items))
    await database.close()


async def test_pods_images_events_and_logs_are_shown(
    real_windlass: Windlass, tmp_path: Path
) -> None:
    assert (await real_windlass("pod", "list")).err == "there are no pods\n"
    notes = (("windlass/instance", "web-1"), ("windlass/node", "n1"))
    pod = Pod(
        id=POD,
        state=PodState.RUNNING,
        pid=77,
        apps=(App(name="app", image=IMAGE, state=AppState.RUNNING),),
        networks=(Network(name="windlass", ipv4="10.64.0.2"),),
        annotations=notes,
        started_ns=NOW,
        manifest='{"acKind": "PodManifest"}',
    )
    lines = [Line(NOW, "stdout", "one"), Line(NOW + SECOND_NS, "stdout", "two \x1b[31m")]
    chunk = Chunk(offset=0, lines=b"".join(map(written, lines)))
    began = Happening(kind=Kind.POD_STARTED, id=POD, name="web-1", time_ns=NOW)
    lost = pod.model_copy(update={"id": pod_id("", "web-1", 0)}).on_node_away("lost")
    await told(tmp_path, IMAGE, pod, began, LogPiece(pod=POD, app="app", chunk=chunk), lost)
    assert " UNDEFINED " in (await real_windlass("pod", "list")).out
    wide = (await real_windlass("pod", "list", "-o", "wide")).out
    assert "n1 (lost)" in wide.replace("\n", "")

    shown = (await real_windlass("pod", "list", "--running", "--instance", "web-1")).out
    for words in (POD[:8], "RUNNING", "web-1", "n1", "windlass.local/web"):
        assert words in shown
    assert (await real_windlass("pod", "list", "--node", "n2", "-o", "name")).out == ""
    document = json.loads((await real_windlass("pod", "inspect", POD[:6], "-o", "json")).out)
    assert (document["address"], document["manifest"]["acKind"]) == ("10.64.0.2", "PodManifest")
    assert "pid: 77" in (await real_windlass("pod", "inspect", POD)).out

    assert (await real_windlass("pod", "logs", POD[:8])).out.splitlines()[0] == "one"
    last = (await real_windlass("pod", "logs", POD, "-n", "1")).out
    assert last.startswith("two")
    assert "\x1b" not in last, "what a pod writes cannot reach the terminal"
    timed = (await real_windlass("pod", "logs", POD, "--times", "--since", "1h")).out
    assert timed.startswith("20")
    line = json.loads((await real_windlass("pod", "logs", POD, "-n", "1", "-o", "json")).out)
    assert line["line"].startswith("two")

    assert "windlass.local/web" in (await real_windlass("image", "list")).out
    assert (await real_windlass("image", "list", "--node", "n2")).out == ""
    found = await real_windlass("image", "inspect", "windlass.local/web", "-o", "json")
    assert json.loads(found.out)["id"] == IMAGE.id
    missing = await real_windlass("image", "inspect", "none")
    assert (missing.code, "0 images are called none" in missing.err) == (1, True)

    happened = (await real_windlass("events", "--pod", POD[:8])).out
    assert "POD_STARTED" in happened
    assert json.loads((await real_windlass("events", "-o", "json")).out)["from"] == "web-1"
    unknown = await real_windlass("pod", "inspect", "0000")
    assert "there is no pod 0000" in unknown.err
