"""Names, events and small lists of the simulated region."""

import pytest

from tests.sim.region import BIG, DOMAIN, GPU, SMALL, Caller, eventually, ids


def below(uri: str) -> str:
    """A URI as the region gives it, seen from the API's root."""
    return uri.partition("/api/2.0/")[2]


async def test_the_small_lists(call: Caller) -> None:
    async def names(path: str) -> list[str]:
        return [one["name"] for one in (await call("GET", path)).json()]

    assert await names("zones/") == ["a", "b", "default"]
    assert await names("tags/") == ["gpu", "large", "metal"]
    assert await names("resourcepools/") == ["default", "lab"]
    assert "ubuntu/jammy" in await names("boot-resources/")
    assert await names("boot-resources/?type=uploaded") == []
    assert ids(await call("GET", "tags/gpu/?op=machines")) == [GPU]
    assert (await call("GET", "tags/nope/")).status_code == 404
    assert (await call("GET", "users/?op=whoami")).json()["username"] == "windlass"


async def test_a_name_is_made_changed_and_taken_away(call: Caller) -> None:
    fqdn = f"blue.{DOMAIN}"
    made = await call(
        "POST", "dnsresources/", fqdn=fqdn, address_ttl="10", ip_addresses="127.41.0.2 127.41.0.3"
    )
    record = made.json()
    assert (record["fqdn"], record["address_ttl"]) == (fqdn, 10)
    assert [one["ip"] for one in record["ip_addresses"]] == ["127.41.0.2", "127.41.0.3"]

    await call("POST", "dnsresources/", fqdn=f"red.{DOMAIN}", ip_addresses="")
    assert len((await call("GET", "dnsresources/")).json()) == 2
    found = (await call("GET", f"dnsresources/?fqdn={fqdn}")).json()
    assert [one["id"] for one in found] == [record["id"]]

    path = f"dnsresources/{record['id']}/"
    changed = await call("PUT", path, ip_addresses="127.41.0.9")
    assert [one["ip"] for one in changed.json()["ip_addresses"]] == ["127.41.0.9"]
    assert changed.json()["address_ttl"] == 10
    assert (await call("DELETE", path)).status_code == 204
    assert (await call("GET", path)).status_code == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"fqdn": f"taken.{DOMAIN}"}, 400),
        ({"fqdn": f"two.labels.{DOMAIN}"}, 400),
        ({"fqdn": "elsewhere.example"}, 404),
        ({"fqdn": f"free.{DOMAIN}", "ip_addresses": "nowhere"}, 400),
        ({"fqdn": f"free.{DOMAIN}", "address_ttl": "soon"}, 400),
        ({"name": "free", "domain": DOMAIN}, 200),
        ({}, 400),
    ],
)
async def test_names_are_checked(call: Caller, form: dict[str, str], status: int) -> None:
    await call("POST", "dnsresources/", fqdn=f"taken.{DOMAIN}")
    assert (await call("POST", "dnsresources/", **form)).status_code == status


async def test_events_are_told_newest_first_in_pages(call: Caller) -> None:
    await call("POST", f"machines/{SMALL}/?op=deploy")
    await call("POST", f"machines/{BIG}/?op=deploy")

    async def both_are_there() -> bool:
        return len(ids(await call("GET", "machines/?status=deployed"))) == 2

    await eventually(both_are_there)
    page = (await call("GET", f"events/?op=query&id={SMALL}&limit=2")).json()
    assert [event["type"] for event in page["events"]] == ["Deployed", "Deploying"]
    assert page["events"][0]["hostname"] == "small"
    older = (await call("GET", below(page["prev_uri"]))).json()
    assert [event["type"] for event in older["events"]] == ["User acquiring node"]
    newer = (await call("GET", below(older["next_uri"]))).json()
    assert newer["events"] == page["events"]
    assert (await call("GET", "events/?op=query&limit=1001")).status_code == 400
    assert (await call("GET", "events/?op=query&level=LOUD")).status_code == 400
    assert (await call("GET", "events/?op=query&level=ERROR")).json()["count"] == 0
