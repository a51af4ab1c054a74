"""Another key, by the command, while the server runs."""

import json
from pathlib import Path

import pytest

from store import keys, secrets
from tests.cli.running import Windlass


async def test_another_key_is_used(
    real_windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "SETTLE_SECONDS", 0)
    made = await real_windlass("cluster", "create", "blue")
    assert made.code == 0, made.err
    missing = await real_windlass("secrets", "rotate-key", "2027-01")
    assert missing.code != 0
    assert "there is no key 2027-01" in missing.err
    assert "python -m store key" in missing.err

    keys.add(tmp_path / "seal.key", "2027-01")  # the server finds it by itself
    done = await real_windlass("secrets", "rotate-key", "2027-01")
    assert done.code == 0, done.err
    assert done.out.splitlines() == ["1 secrets to go", "every secret lies under 2027-01"]
    shown = await real_windlass("secrets", "keys", "-o", "json")
    assert [
        (each["name"], each["used"], each["known"], each["secrets"])
        for each in json.loads(shown.out)["items"]
    ] == [("file-1", False, True, 0), ("2027-01", True, True, 1)]
