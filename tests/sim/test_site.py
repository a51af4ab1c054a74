"""A whole site seen through its window."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from sim.maas.machine import Status
from sim.site import stock
from tests.sim.region import DOMAIN, Caller, Region, eventually

FAULT = {"where": "maas GET zones/", "how": "refuse", "status": 418}


@pytest.fixture
def region() -> Region:
    return Region(stock(12))


@pytest.fixture
async def call(region: Region) -> AsyncIterator[Caller]:
    async with region.serve() as caller:
        yield caller


@pytest.fixture
async def window(region: Region, call: Caller) -> AsyncIterator[httpx2.AsyncClient]:
    base = region.url.removesuffix("MAAS/")
    async with httpx2.AsyncClient(base_url=base, trust_env=False) as client:
        yield client


def test_the_stock_is_spread_and_mixed() -> None:
    machines = stock(12)
    assert all("metal" in machine.tags for machine in machines)
    assert sum("gpu" in machine.tags for machine in machines) == 3
    assert sum("large" in machine.tags for machine in machines) == 4
    assert len({machine.zone for machine in machines}) == 3
    assert len({machine.system_id for machine in machines}) == 12
    assert stock(24)[:12] == machines


async def test_machines_are_shown_with_what_maas_hides(
    call: Caller, window: httpx2.AsyncClient
) -> None:
    taken = (await call("POST", "machines/?op=allocate", agent_name="me")).json()
    shown = (await window.get("site/machines")).json()
    assert len(shown) == 12
    (mine,) = [machine for machine in shown if machine["agent_name"]]
    assert (mine["system_id"], mine["owner"]) == (taken["system_id"], "windlass")
    assert (mine["status"], mine["agent_name"]) == ("Allocated", "me")


async def test_faults_are_planned_watched_and_called_off(
    call: Caller, window: httpx2.AsyncClient
) -> None:
    added = await window.post("site/faults", json=[FAULT])
    assert added.json()[0]["fired"] == []
    assert (await call("GET", "zones/")).status_code == 418
    (met,) = (await window.get("site/faults")).json()
    assert met["fired"] == ["maas GET zones/"]
    assert met["fault"]["status"] == 418
    assert (await window.delete("site/faults")).status_code == 204
    assert (await window.get("site/faults")).json() == []


async def test_a_fault_nobody_can_have_is_refused(window: httpx2.AsyncClient) -> None:
    reply = await window.post("site/faults", json=[FAULT | {"how": "sulk"}])
    assert reply.status_code == 400
    assert "sulk" in reply.text


async def test_what_is_held_is_told(call: Caller, window: httpx2.AsyncClient) -> None:
    await call("POST", "machines/?op=allocate", agent_name="me")
    await call("POST", "dnsresources/", fqdn=f"blue.{DOMAIN}", ip_addresses="127.41.0.2")
    told = (await window.get("site/invariants")).json()
    assert [machine["agent_name"] for machine in told["owned"]] == ["me"]
    assert told["dns"] == [{"fqdn": f"blue.{DOMAIN}", "addresses": ["127.41.0.2"]}]
    assert told["hosts"] == {"installed": []}
    assert told["violations"] == []


async def test_what_must_never_be_is_told(region: Region) -> None:
    first, second, third, fourth, *_ = region.site.maas.machines.all.values()
    first.agent_name = second.agent_name = "both"
    second.status, second.owner = Status.ALLOCATED, "windlass"
    third.annotations = {"kaas-cluster": "forgotten"}
    fourth.status, fourth.owner = Status.DEPLOYED, "windlass"
    violations = region.site.inspect()["violations"]
    assert violations == [
        "2 machines carry both",
        f"{first.system_id} is Ready and carries both but has no owner",
        f"{third.system_id} is Ready but still marked:  {{'kaas-cluster': 'forgotten'}}",
        f"{fourth.system_id} is Deployed but has no host",
    ]


async def test_hosts_and_region_agree_throughout(region: Region, call: Caller) -> None:
    path = f"machines/{next(iter(region.site.maas.machines.all))}/"
    await call("POST", f"{path}?op=deploy")
    await eventually(lambda: region.hosts.installed)
    await eventually(lambda: region.site.inspect()["violations"] == [])
    await call("POST", f"{path}?op=release")
    await eventually(lambda: not region.hosts.installed)
    await eventually(lambda: region.site.inspect()["owned"] == [])
