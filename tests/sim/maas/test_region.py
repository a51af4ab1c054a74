"""The simulated region speaks MAAS to anybody who does, goes wrong as planned, and lives on."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from sim.faults import Fault, How
from sim.ledger import Ledger
from sim.maas import Stocked
from sim.maas.machine import Status
from sim.pace import INSTANT, HandClock
from tests.sim.region import (
    BIG,
    DOMAIN,
    GPU,
    HALTING,
    SMALL,
    STOCK,
    Caller,
    Region,
    Remembering,
    eventually,
    ids,
    new_key,
    some,
)
from tests.support.load import limit


async def test_version_and_description_are_open(call: Caller) -> None:
    version = await call.http.get("version/")
    assert version.json()["version"].startswith("3.")
    described = (await call.http.get("describe/")).json()
    machines = next(one for one in described["resources"] if one["name"] == "MachinesHandler")
    assert machines["auth"]["uri"] == f"{call.http.base_url}machines/"
    assert {"name": "allocate", "op": "allocate", "method": "POST", "restful": False}.items() <= (
        machines["auth"]["actions"][2].items()
    )
    assert version.headers["X-MAAS-API-Hash"] == described["hash"]


async def test_somebody_unknown_is_not_understood_at_the_machines(call: Caller) -> None:
    """MAAS has an anonymous handler there, which knows no such call."""
    reply = await call.http.get("machines/")
    assert reply.status_code == 400
    assert reply.text == "Unrecognised signature: method=GET op=None"


async def test_somebody_unknown_is_challenged_elsewhere(call: Caller) -> None:
    reply = await call.http.get("zones/")
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"] == 'OAuth realm="OAuth"'


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (0, "Authorization Error: Invalid API key."),
        (1, "Authorization Error: 'Invalid access token: wrong'"),
        (2, "Authorization Error: 'Invalid signature.'"),
    ],
)
async def test_every_part_of_the_key_counts(call: Caller, part: int, said: str) -> None:
    parts = call.api_key.split(":")
    parts[part] = "wrong"
    call.api_key = ":".join(parts)
    reply = await call("GET", "machines/")
    assert (reply.status_code, reply.text) == (401, said)
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"


async def test_a_nonce_works_once(call: Caller) -> None:
    signed = call.sign()
    assert (await call.http.get("zones/", headers=signed)).status_code == 200
    again = await call.http.get("zones/", headers=signed)
    assert again.status_code == 401
    assert "Nonce already used" in again.text


async def test_an_unknown_operation_is_named(call: Caller) -> None:
    reply = await call("POST", "machines/?op=bogus")
    assert reply.status_code == 400
    assert reply.text == "Unrecognised signature: method=POST op=bogus"


async def test_a_path_without_its_slash_is_unknown(call: Caller) -> None:
    assert (await call("GET", "machines")).status_code == 404


async def test_a_machine_is_complete(call: Caller) -> None:
    reply = await call("GET", f"machines/{GPU}/")
    machine = reply.json()
    assert len(machine) >= 79
    assert machine["fqdn"] == f"gpu.{DOMAIN}"
    assert machine["owner"] is None
    assert machine["ip_addresses"] == []
    assert machine["zone"]["name"] == "b"
    assert machine["pool"]["name"] == "lab"
    assert machine["resource_uri"] == f"/MAAS/api/2.0/machines/{GPU}/"
    assert machine["boot_interface"] == machine["interface_set"][0]
    assert reply.text.startswith("{\n    ")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [BIG, SMALL, GPU]),
        (f"id={GPU}&id={BIG}&id=nobody", [BIG, GPU]),
        ("tags=metal&tags=gpu", [GPU]),
        ("not_tags=gpu", [BIG, SMALL]),
        ("zone=b", [SMALL, GPU]),
        ("not_in_zone=b", [BIG]),
        ("pool=lab", [GPU]),
        ("status=ready&status=allocated", [BIG, SMALL, GPU]),
        ("status=failed_deployment", []),
        ("agent_name=nobody", []),
        ("hostname=small", [SMALL]),
        ("cpu_count=8", [BIG, GPU]),
        ("mem=8192", [BIG, GPU]),
        ("mac_address=52:54:00:00:00:02", [SMALL]),
        ("unheard-of=1", [BIG, SMALL, GPU]),
    ],
)
async def test_the_list_is_filtered(call: Caller, query: str, found: list[str]) -> None:
    assert ids(await call("GET", f"machines/?{query}")) == found


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("tags=nope", "tags", "No such tag(s): 'nope'."),
        ("zone=nope", "zone", "No such zone: 'nope'."),
        ("pool=nope", "pool", "No such pool: 'nope'."),
        ("mem=much", "mem", "Invalid memory: number of MiB required."),
        ("status=10", "status", "Select a valid choice. 10 is not one of the available choices."),
    ],
)
async def test_a_filter_by_what_does_not_exist_is_wrong(
    call: Caller, query: str, field: str, said: str
) -> None:
    reply = await call("GET", f"machines/?{query}")
    assert reply.status_code == 400
    assert reply.json() == {field: [said]}


async def test_an_unknown_machine_is_not_found(call: Caller) -> None:
    reply = await call("GET", "machines/nobody/")
    assert (reply.status_code, reply.text) == (404, "No Machine matches the given query.")


async def test_every_status_has_its_word() -> None:
    assert Status.FAILED_RELEASING.said == "Releasing failed"
    assert Status.FAILED_DEPLOYMENT.said == "Failed deployment"
    assert len({status.said for status in Status}) == 23


async def test_a_call_is_refused_as_planned(region: Region, call: Caller) -> None:
    region.faults.add(
        Fault(where="maas GET zones/", how=How.REFUSE, status=503, retry_after=10, nth=2)
    )
    assert (await call("GET", "zones/")).status_code == 200
    reply = await call("GET", "zones/")
    assert (reply.status_code, reply.text) == (503, "simulated fault")
    assert reply.headers["Retry-After"] == "10"
    assert (await call("GET", "zones/")).status_code == 200


@pytest.mark.parametrize(("how", "taken"), [(How.HALF, 1), (How.DROP, 0)])
async def test_an_answer_can_get_lost(region: Region, call: Caller, how: How, taken: int) -> None:
    region.faults.add(Fault(where="maas POST machines/?op=allocate", how=how))
    with pytest.raises(httpx2.TransportError):
        await call("POST", "machines/?op=allocate", agent_name="me")
    assert len(region.holders("me")) == taken


async def test_a_slow_call_happens_even_if_nobody_waits_for_it(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="maas POST *op=allocate", how=How.SLOW, seconds=3))
    with pytest.raises(httpx2.ReadTimeout):
        await slow.http.post(
            "machines/?op=allocate",
            data={"agent_name": "me"},
            headers=slow.sign(),
            timeout=0.05,
        )
    assert slow_region.holders("me") == []
    await clock.turn(3)
    await eventually(lambda: slow_region.holders("me"))


async def test_a_call_can_hang_and_stopping_does_not_wait_for_it(region: Region) -> None:
    region.faults.add(Fault(where="maas GET zones/", how=How.HANG))
    async with region.serve() as call:
        hanging = asyncio.create_task(call("GET", "zones/"))
        await eventually(lambda: region.faults.met()[0][1])
    with pytest.raises(httpx2.TransportError):
        await hanging


async def test_a_killed_region_goes_on_where_it_was(tmp_path: Path, clock: HandClock) -> None:
    path, key, hosts = tmp_path / "site.jsonl", new_key(), Remembering()
    first = Region(STOCK, pace=HALTING, clock=clock, ledger=Ledger(path), hosts=hosts, api_key=key)
    async with first.serve() as call:
        await call("POST", "machines/?op=allocate", system_id=BIG, agent_name="kept")
        await call("POST", f"machines/{SMALL}/?op=deploy", agent_name="moving")
        await call("POST", f"machines/{GPU}/?op=deploy")
        await call("POST", f"machines/{GPU}/?op=release")
        await call("POST", "dnsresources/", fqdn=f"blue.{DOMAIN}", ip_addresses="127.41.0.2")
        await clock.turn(1)

    stock = [*STOCK, Stocked(hostname="newcomer")]
    second = Region(stock, pace=HALTING, clock=clock, ledger=Ledger(path), hosts=hosts, api_key=key)
    async with second.serve() as call:
        assert second.holders("kept") == [BIG]
        assert second.holders("moving") == [SMALL]
        assert (await call("GET", "dnsresources/")).json()[0]["fqdn"] == f"blue.{DOMAIN}"
        assert len((await call("GET", "machines/")).json()) == 4
        events = (await call("GET", "events/?op=query")).json()["events"]
        assert events[-1]["type"] == "User acquiring node"
        assert [await call.status(one) for one in (SMALL, GPU)] == ["Deploying", "Releasing"]
        await clock.turn(4)
        assert [await call.status(one) for one in (SMALL, GPU)] == ["Deploying", "Ready"]
        await clock.turn(5)
        assert await call.status(SMALL) == "Deployed"
        assert list(hosts.installed) == [SMALL]


async def test_five_hundred_machines_are_listed_quickly() -> None:
    region = Region(some(500), pace=INSTANT)
    async with region.serve() as call:
        await call("GET", "machines/")
        async with limit(2):
            assert len(ids(await call("GET", "machines/"))) == 500
    addresses = {machine.address for machine in region.site.maas.machines.all.values()}
    assert len(addresses) == 500
