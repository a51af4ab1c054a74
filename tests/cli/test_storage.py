"""What is known of Ceph, asked of a real server."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.storage_look import Look
from domain.storage_mons import instead, word
from store.engine import Database
from store.observations import Observations
from tests.cli.running import Windlass
from tests.domain.ceph import recorded, seen
from tests.domain.test_storage_ages import DUMP


async def test_what_was_seen_is_shown(real_windlass: Windlass, tmp_path: Path) -> None:
    unseen = await real_windlass("storage", "status")
    assert unseen.code != 0
    assert "has not been seen yet" in unseen.err
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/windlass.db")
    observations = Observations(database)
    await observations.claim("ceph", timedelta(hours=1))
    now = seen("fs-failed").model_copy(update={"at": datetime.now(UTC)})
    await observations.keep("ceph", Look(observation=now))
    await database.close()
    shown = (await real_windlass("storage", "status")).out
    for words in ("HEALTH_ERR", "1 filesystem is offline", "3: 3 up, 3 in", "11.2% of 12.0 GiB"):
        assert words in shown
    document = json.loads((await real_windlass("storage", "status", "-o", "json")).out)
    assert (document["status"], document["osd"]["up"]) == ("HEALTH_ERR", 3)
    assert "node-a" in (await real_windlass("storage", "nodes")).out
    radar = json.loads((await real_windlass("storage", "radar", "-o", "json")).out)["items"]
    assert {each["figure"]: each["value"] for each in radar}["stability"] == 80
    groups = json.loads((await real_windlass("storage", "daemons", "-o", "json")).out)["items"]
    assert [each["name"] for each in groups] == ["mds.cephfs", "mgr", "mon", "osd", "rgw.default"]
    pools = (await real_windlass("storage", "pools", "-o", "name")).out.splitlines()
    assert "pool/cephfs_data" in pools
    shown = (await real_windlass("storage", "upgrade")).out
    assert "Ceph 16.2.15, could run 18.2.7; by itself: NOTIFY at 0 0 * * *" in shown


async def test_what_is_unknown_is_called_so(real_windlass: Windlass, tmp_path: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/windlass.db")
    observations = Observations(database)
    await observations.claim("ceph", timedelta(hours=1))
    now = datetime.now(UTC)
    last = seen().model_copy(update={"at": now - timedelta(hours=1)})
    it = instead(last, word(recorded("status.mgr-killed"), DUMP), now)
    await observations.keep("ceph", Look(observation=it))
    await database.close()
    shown = (await real_windlass("storage", "status")).out
    assert "osds      3: 1 up, 3 in" in shown
    for line in (
        "objects   unknown",
        "space     unknown",
        "clients   unknown",
        "mds       unknown",
    ):
        assert f"{line}, last seen " in shown
    assert "active and clean: unknown, last seen" in shown
    document = json.loads((await real_windlass("storage", "status", "-o", "json")).out)
    assert document["usage"] is document["active_clean"] is document["io"] is None
    assert "capacity" in document["last_seen"]
    assert "unknown" in (await real_windlass("storage", "radar")).out
    radar = json.loads((await real_windlass("storage", "radar", "-o", "json")).out)["items"]
    assert {each["figure"]: each["value"] for each in radar}["capacity_available"] is None
