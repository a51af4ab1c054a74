"""A cluster that is left alone: its status follows what happens to its machines."""

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from oauthlib import oauth1

from tests.e2e.site import UP_SECONDS, Place

HURRIED = {"LOOK_SECONDS": "0.3", "INSPECT_SECONDS": "2", "SILENT_SECONDS": "2"}
LOOK_SECONDS = 0.3


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.env |= {f"WINDLASS_KAAS__{name}": value for name, value in HURRIED.items()}
    return place


def switched(place: Place, machine: str, power: str) -> None:
    """Switch a machine on or off in MAAS, as somebody at its web page could."""
    key = (place.folder / ".windlass" / "maas.key").read_text().strip()
    consumer, token, secret = key.split(":")
    signer = oauth1.Client(consumer, "", token, secret, signature_method=oauth1.SIGNATURE_PLAINTEXT)
    headers: dict[str, str] = signer.sign("http://maas/")[1]
    url = f"{place.env['WINDLASS_MAAS__URL']}api/2.0/machines/{machine}/?op=power_{power}"
    httpx2.post(url, headers=headers, trust_env=False).raise_for_status()


def nodes(place: Place) -> list[dict[str, Any]]:
    listed = place.run("cluster", "nodes", "hello", "-o", "json").stdout
    found: list[dict[str, Any]] = json.loads(listed)["items"]
    return found


def turns(place: Place, status: str) -> str:
    """Wait until the cluster has that status, and return what it says."""
    deadline = time.monotonic() + UP_SECONDS
    while True:
        found = json.loads(place.run("cluster", "get", "hello", "-o", "json").stdout)
        if found["status"] == status:
            return str(found["status_message"])
        assert time.monotonic() < deadline, found
        time.sleep(LOOK_SECONDS)


@pytest.mark.timeout(240)
def test_the_status_follows_what_happens_to_the_machines(place: Place) -> None:
    with place.up() as site:
        site.until("^up\\. Ctrl-C")
        master, worker, _ = (node["machine_id"] for node in nodes(place))

        switched(place, worker, "off")
        said = turns(place, "DEGRADED")
        assert f"machine {worker} of" in said or "is lost (NodeStatusUnknown)" in said
        assert nodes(place)[1]["kubernetes_status"] == "Unknown"
        switched(place, worker, "on")
        turns(place, "RUNNING")
        assert nodes(place)[1]["kubernetes_status"] == "Ready"

        switched(place, master, "off")
        assert "the API has given no answer since" in turns(place, "ERROR")
        assert {node["kubernetes_status"] for node in nodes(place)} == {"Unknown"}
        switched(place, master, "on")
        said = turns(place, "RUNNING")
        assert "answer" not in said
