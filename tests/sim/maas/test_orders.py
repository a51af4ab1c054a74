"""What the simulated region does with machines when it is told to."""

import asyncio
import base64
from typing import Any

import pytest

from sim.faults import Fault, How
from sim.pace import HandClock
from tests.sim.region import BIG, GPU, SMALL, STOCK, Caller, Region, eventually, ids


async def deployed(call: Caller, system_id: str = SMALL, **form: Any) -> dict[str, Any]:
    await call("POST", "machines/?op=allocate", system_id=system_id)
    await call("POST", f"machines/{system_id}/?op=deploy", **form)

    async def there() -> bool:
        return await call.status(system_id) == "Deployed"

    await eventually(there)
    return await call.machine(system_id)


async def test_the_cheapest_match_is_allocated(call: Caller) -> None:
    reply = await call("POST", "machines/?op=allocate", tags="metal", agent_name="me")
    machine = reply.json()
    assert (machine["system_id"], machine["status"]) == (SMALL, 10)
    assert machine["status_name"] == "Allocated"
    assert machine["owner"] == "windlass"
    assert machine["constraints_by_type"] == {}
    assert "agent_name" not in machine
    assert ids(await call("GET", "machines/?agent_name=me")) == [SMALL]
    assert ids(await call("GET", "machines/?op=list_allocated")) == [SMALL]


async def test_all_constraints_must_match(call: Caller) -> None:
    reply = await call(
        "POST", "machines/?op=allocate", tags=["metal", "gpu"], zone="b", mem="4096", pool="lab"
    )
    assert reply.json()["system_id"] == GPU


async def test_no_match_is_no_reason_to_come_back(call: Caller) -> None:
    reply = await call("POST", "machines/?op=allocate", name="small", zone="a")
    assert reply.status_code == 409
    assert "Retry-After" not in reply.headers
    assert reply.text == (
        "No available machine matches constraints: [('name', ['small']), ('zone', ['a'])] "
        '(resolved to "name=small zone=a")'
    )


async def test_an_empty_region_says_so_plainly(call: Caller) -> None:
    for _ in STOCK:
        assert (await call("POST", "machines/?op=allocate")).status_code == 200
    reply = await call("POST", "machines/?op=allocate")
    assert (reply.status_code, reply.text) == (409, "No machine available.")


async def test_a_constraint_nobody_knows_is_refused(call: Caller) -> None:
    reply = await call("POST", "machines/?op=allocate", not_in_zones="a")
    assert (reply.status_code, reply.json()) == (400, {"not_in_zones": ["No such constraint."]})


async def test_a_dry_run_reserves_nothing(call: Caller) -> None:
    reply = await call("POST", "machines/?op=allocate", dry_run="true")
    assert reply.json()["status_name"] == "Ready"
    assert await call.status(SMALL) == "Ready"


async def test_a_machine_is_given_to_one_of_many(region: Region, call: Caller) -> None:
    replies = await asyncio.gather(
        *(call("POST", "machines/?op=allocate", system_id=BIG) for _ in range(8))
    )
    assert sorted(reply.status_code for reply in replies) == [200] + [409] * 7


async def test_an_address_comes_after_the_answer(slow: Caller, clock: HandClock) -> None:
    await slow("POST", "machines/?op=allocate", system_id=SMALL)
    reply = await slow("POST", f"machines/{SMALL}/?op=deploy", distro_series="ubuntu/noble")
    assert reply.json()["ip_addresses"] == []
    assert reply.json()["status_name"] == "Deploying"
    assert reply.json()["distro_series"] == "noble"

    shown = await slow.machine(SMALL)
    assert shown["ip_addresses"] == ["fe80::5054:ff:fe00:2", "127.41.0.3"]
    assert shown["boot_interface"]["links"][0]["ip_address"] == "127.41.0.3"
    await clock.turn(9.9)
    assert await slow.status(SMALL) == "Deploying"
    await clock.turn(0.1)
    assert await slow.status(SMALL) == "Deployed"


async def test_the_host_gets_its_user_data_as_it_was_meant(region: Region, call: Caller) -> None:
    said = "#cloud-config\nhostname: ß\n" * 20
    await deployed(call, user_data=base64.encodebytes(said.encode()).decode())
    host = region.hosts.installed[SMALL]
    assert (host.user_data, host.hostname, host.series) == (said, "small", "jammy")
    assert host.address == "127.41.0.3"


async def test_deploying_a_free_machine_takes_it_first(call: Caller) -> None:
    reply = await call("POST", f"machines/{SMALL}/?op=deploy", agent_name="me")
    assert reply.json()["owner"] == "windlass"
    assert ids(await call("GET", "machines/?agent_name=me")) == [SMALL]


@pytest.mark.parametrize(
    "wrong",
    [
        {"distro_series": "vista"},
        {"distro_series": "windows/jammy"},
        {"hwe_kernel": "new"},
        {"user_data": "A"},
    ],
)
async def test_a_refused_deployment_leaves_the_machine_as_it_was(
    call: Caller, wrong: dict[str, str]
) -> None:
    reply = await call("POST", f"machines/{SMALL}/?op=deploy", **wrong)
    assert reply.status_code == 400
    machine = await call.machine(SMALL)
    assert (machine["status_name"], machine["owner"]) == ("Ready", None)


async def test_what_runs_is_not_deployed_again(call: Caller) -> None:
    await deployed(call)
    reply = await call("POST", f"machines/{SMALL}/?op=deploy")
    assert reply.status_code == 409
    assert reply.text == "Can't deploy a machine that is in the 'Deployed' state"


async def test_a_deployment_can_fail(region: Region, call: Caller) -> None:
    fault = Fault(where=f"deploy {SMALL}", how=How.FAIL, message="disk on fire")
    region.faults.add(fault)
    await call("POST", f"machines/{SMALL}/?op=deploy")

    async def failed() -> bool:
        return await call.status(SMALL) == "Failed deployment"

    await eventually(failed)
    assert (await call.machine(SMALL))["status_message"] == "disk on fire"
    assert region.faults.met() == [(fault, [f"deploy {SMALL}"])]
    assert region.hosts.done == []


async def test_a_deployment_that_says_nothing_fails_after_half_an_hour(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="deploy *", how=How.HANG))
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(29 * 60)
    assert await slow.status(SMALL) == "Deploying"
    await clock.turn(60)
    assert await slow.status(SMALL) == "Failed deployment"


async def test_a_deployment_can_take_longer(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="deploy *", how=How.SLOW, seconds=5))
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(14)
    assert await slow.status(SMALL) == "Deploying"
    await clock.turn(1)
    assert await slow.status(SMALL) == "Deployed"


async def test_an_annotation_without_a_value_goes(call: Caller) -> None:
    await call("POST", "machines/?op=allocate", system_id=SMALL)
    path = f"machines/{SMALL}/?op=set_workload_annotations"
    await call("POST", path, colour="blue", shape="round")
    await call("POST", path, colour="")
    machine = await call.machine(SMALL)
    assert machine["workload_annotations"] == machine["owner_data"] == {"shape": "round"}


async def test_a_broken_machine_is_nobodys_until_it_is_fixed(call: Caller) -> None:
    await deployed(call)
    broken = await call("POST", f"machines/{SMALL}/?op=mark_broken", comment="smells")
    machine = broken.json()
    assert (machine["status_name"], machine["owner"]) == ("Broken", None)
    assert machine["error_description"] == "smells"
    assert ids(await call("GET", "machines/?status=ready")) == [BIG, GPU]
    fixed = await call("POST", f"machines/{SMALL}/?op=mark_fixed")
    assert fixed.json()["status_name"] == "Ready"


async def test_an_aborted_deployment_leaves_the_machine_allocated(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    early = await slow("POST", f"machines/{SMALL}/?op=abort")
    assert early.status_code == 403
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    assert (await slow("POST", f"machines/{SMALL}/?op=abort")).json()["status_name"] == "Allocated"
    assert (await slow("POST", f"machines/{SMALL}/?op=abort")).status_code == 409
    await clock.turn(60)
    assert await slow.status(SMALL) == "Allocated"


async def test_a_locked_machine_is_not_released(call: Caller) -> None:
    await call("POST", "machines/?op=allocate", system_id=SMALL)
    assert (await call("POST", f"machines/{SMALL}/?op=lock")).status_code == 409
    await deployed(call)
    assert (await call("POST", f"machines/{SMALL}/?op=lock")).json()["locked"] is True
    assert (await call("POST", f"machines/{SMALL}/?op=release")).status_code == 409
    assert (await call("POST", f"machines/{SMALL}/?op=unlock")).json()["locked"] is False
    assert (await call("POST", f"machines/{SMALL}/?op=release")).status_code == 200


async def test_power_reaches_the_host(region: Region, call: Caller) -> None:
    await deployed(call)
    off = await call("POST", f"machines/{SMALL}/?op=power_off")
    assert off.json()["power_state"] == "off"
    await eventually(lambda: ("power off", SMALL) in region.hosts.done)
    asked = await call("GET", f"machines/{SMALL}/?op=query_power_state")
    assert asked.json() == {"state": "off"}
    await call("POST", f"machines/{SMALL}/?op=power_on")
    await eventually(lambda: region.hosts.done[-1] == ("power on", SMALL))


async def test_power_is_not_switched_in_the_middle_of_things(slow: Caller) -> None:
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    reply = await slow("POST", f"machines/{SMALL}/?op=power_off")
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "10")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"machines/{SMALL}/"),
        ("DELETE", f"machines/{SMALL}/"),
        ("POST", "tags/"),
        ("POST", "tags/gpu/?op=update_nodes"),
    ],
)
async def test_what_needs_an_administrator_is_forbidden(
    call: Caller, method: str, path: str
) -> None:
    assert (await call(method, path)).status_code == 403
