"""Calls to MAAS one by one: what each answer means, and what no answer means."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from clients.maas import Maas, MaasEndpoints, MaasMachines, seen, transport
from clients.maas.seen import SeenMachine
from domain.errors import Conflict, DomainError, Failed, Invalid, NotFound, Unavailable
from domain.ports import Endpoint
from sim.faults import Fault, How
from tests.sim.region import DOMAIN, Region, some

ZONES = "maas GET zones/"


@pytest.fixture
def region() -> Region:
    return Region(some(2))


@pytest.fixture
async def maas(region: Region) -> AsyncIterator[Maas]:
    async with region.serve():
        maas = Maas(region.url, region.api_key, timeout_seconds=1, pause_seconds=0.01)
        yield maas
        await maas.close()


@pytest.mark.parametrize(
    ("status", "retry_after", "kind", "reason"),
    [
        (302, None, Failed, "MAAS_STRANGE"),
        (400, None, Invalid, "MAAS_REFUSED"),
        (401, None, Failed, "MAAS_CREDENTIALS"),
        (403, None, Failed, "MAAS_FORBIDDEN"),
        (404, None, NotFound, "MAAS_NOT_FOUND"),
        (405, None, Failed, "MAAS_STRANGE"),
        (408, None, Unavailable, "MAAS_DOWN"),
        (409, None, Conflict, "MAAS_STATE"),
        (409, 5, Unavailable, "MAAS_BUSY"),
        (429, None, Unavailable, "MAAS_BUSY"),
        (500, None, Unavailable, "MAAS_DOWN"),
        (502, None, Unavailable, "MAAS_DOWN"),
        (503, None, Unavailable, "MAAS_BUSY"),
        (503, 10, Unavailable, "MAAS_BUSY"),
        (504, None, Unavailable, "MAAS_DOWN"),
    ],
)
async def test_every_answer_has_its_meaning(
    region: Region,
    maas: Maas,
    status: int,
    retry_after: int | None,
    kind: type[DomainError],
    reason: str,
) -> None:
    region.faults.add(
        Fault(where=ZONES, how=How.REFUSE, status=status, retry_after=retry_after, times=3)
    )
    with pytest.raises(kind, match=rf"MAAS answered {status} to GET zones/: simulated") as caught:
        await maas.get("zones/")
    assert type(caught.value) is kind
    assert caught.value.reason == reason


async def test_what_is_only_busy_is_asked_again_and_signed_anew(region: Region, maas: Maas) -> None:
    region.faults.add(Fault(where=ZONES, how=How.REFUSE, status=503, retry_after=10, times=2))
    assert b"default" in await maas.get("zones/")


async def test_what_is_down_is_not_asked_again(region: Region, maas: Maas) -> None:
    region.faults.add(Fault(where=ZONES, how=How.REFUSE, status=500))
    with pytest.raises(Unavailable):
        await maas.get("zones/")
    assert len(region.faults.met()[0][1]) == 1


@pytest.mark.parametrize("how", [How.DROP, How.HALF, How.HANG])
async def test_silence_is_unavailable(region: Region, maas: Maas, how: How) -> None:
    region.faults.add(Fault(where=ZONES, how=how))
    with pytest.raises(Unavailable, match="MAAS did not answer GET zones/") as caught:
        await maas.get("zones/")
    assert caught.value.reason == "MAAS_DOWN"


async def test_nobody_there_is_unavailable(region: Region) -> None:
    maas = Maas("http://127.0.0.1:1/MAAS", region.api_key)
    with pytest.raises(Unavailable, match="MAAS did not answer GET zones/ properly"):
        await maas.get("zones/")
    await maas.close()


async def test_few_requests_are_under_way_at_once_and_waiting_for_a_place_is_free(
    region: Region,
) -> None:
    region.faults.add(Fault(where=ZONES, how=How.SLOW, seconds=0.3, times=100))
    async with region.serve():
        maas = Maas(region.url, region.api_key, at_once=2, timeout_seconds=1)
        asked = [asyncio.create_task(maas.get("zones/")) for _ in range(8)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert len(region.faults.met()[0][1]) <= 4
        assert all(b"default" in answer for answer in await asyncio.gather(*asked))
        await maas.close()


async def test_a_key_that_is_none_is_invalid() -> None:
    with pytest.raises(Invalid, match="consumer:token:secret"):
        Maas("http://127.0.0.1:1/MAAS/", "secret")


async def test_a_wrong_key_says_what_to_do(region: Region, maas: Maas) -> None:
    wrong = Maas(region.url, "a:b:c")
    with pytest.raises(Failed, match="Authorization Error") as caught:
        await wrong.get("zones/")
    assert caught.value.do == "give Windlass a valid MAAS API key"
    await wrong.close()


async def test_an_endless_answer_is_cut_short(maas: Maas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_ANSWER", 1000)
    with pytest.raises(Unavailable, match="more than 1000 bytes"):
        await maas.get("machines/")


async def test_a_long_refusal_is_quoted_in_part(region: Region, maas: Maas) -> None:
    region.faults.add(Fault(where=ZONES, how=How.REFUSE, status=400, message="very\nlong " * 500))
    with pytest.raises(Invalid) as caught:
        await maas.get("zones/")
    assert len(caught.value.message) < 400
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>please sign in</html>",
        b'{"machines": []}',
        b'[{"system_id": "../../users/1", "status_name": "Ready"}]',
        b'[{"system_id": "abc123"}]',
        b'[{"system_id": "abc123", "status_name": "Ready", "ip_addresses": "127.0.0.1"}]',
    ],
)
async def test_a_page_that_is_no_answer_is_unavailable(answer: bytes) -> None:
    """Something between us and MAAS may speak with status 200, and MAAS is believed nothing."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        maas = Maas(f"http://127.0.0.1:{port}/MAAS/", "a:b:c")
        with pytest.raises(Unavailable, match="with what is not what we asked for"):
            await MaasMachines(maas).stock()
        await maas.close()


@pytest.mark.parametrize(
    ("shown", "address"),
    [
        ([], ""),
        (["fe80::1"], ""),
        (["2001:db8::1"], ""),
        (["169.254.3.4"], ""),
        (["0.0.0.0", "not an address"], ""),  # noqa: S104 - it is what must be passed over
        (["fe80::1", "127.41.0.2"], "127.41.0.2"),
        (["127.41.0.2", "127.41.0.3"], "127.41.0.3"),
    ],
)
def test_an_address_is_one_that_can_be_reached(shown: list[str], address: str) -> None:
    machine = SeenMachine.model_validate(
        {
            "system_id": "abc123",
            "status_name": "Deployed",
            "ip_addresses": shown,
            "boot_interface": {"links": [{"mode": "auto"}, {"ip_address": "127.41.0.3"}]},
        }
    )
    assert machine.address == address


def test_what_somebody_wrote_at_length_is_cut_and_hides_no_machine() -> None:
    """A list holds everybody's machines, with what they noted on them."""
    long = "x" * 5000
    machine = {
        "system_id": "abc123",
        "status_name": "Ready",
        "status_message": long,
        "tag_names": [long],
        "workload_annotations": {"note": long},
    }
    (read,) = seen.read(seen.MACHINES, json.dumps([machine]).encode(), "a call")
    cut = long[: seen.LONGEST_TEXT]
    assert (read.status_message, read.tag_names) == (cut, [cut])
    assert read.annotations == {"note": cut}


def test_older_regions_call_annotations_owner_data() -> None:
    body = b'[{"system_id": "abc123", "status_name": "Ready", "owner_data": {"a": "b"}}]'
    assert seen.read(seen.MACHINES, body, "a call")[0].annotations == {"a": "b"}


def endpoint(*addresses: str) -> Endpoint:
    return Endpoint(cluster_uid="u", name=f"blue.{DOMAIN}", addresses=addresses)


def records(region: Region) -> dict[str, list[str]]:
    names = region.site.maas.names
    return {names.fqdn(name): name.addresses for name in names.all.values()}


async def test_a_name_leads_to_exactly_these_addresses(region: Region, maas: Maas) -> None:
    names = MaasEndpoints(maas)
    await names.ensure(endpoint())
    assert records(region) == {f"blue.{DOMAIN}": []}
    await names.ensure(endpoint("127.41.0.2", "127.41.0.3"))
    await names.ensure(endpoint("127.41.0.3"))
    assert records(region) == {f"blue.{DOMAIN}": ["127.41.0.3"]}
    assert next(iter(region.site.maas.names.all.values())).ttl == 10


async def test_ensuring_what_is_so_writes_nothing(region: Region, maas: Maas) -> None:
    names = MaasEndpoints(maas)
    await names.ensure(endpoint("127.41.0.2", "127.41.0.3"))
    writing = Fault(where="maas P* dnsresources/*", how=How.DROP)
    region.faults.add(writing)
    await names.ensure(endpoint("127.41.0.3", "127.41.0.2"))
    assert region.faults.met() == [(writing, [])]


async def test_two_that_make_a_name_at_once_agree(region: Region, maas: Maas) -> None:
    names = MaasEndpoints(maas)
    wanted = endpoint("127.41.0.2")
    await asyncio.gather(*(names.ensure(wanted) for _ in range(4)))
    assert records(region) == {f"blue.{DOMAIN}": ["127.41.0.2"]}


async def test_a_name_whose_making_was_not_answered_is_found_the_next_time(
    region: Region, maas: Maas
) -> None:
    names = MaasEndpoints(maas)
    region.faults.add(Fault(where="maas POST dnsresources/", how=How.HALF))
    with pytest.raises(Unavailable):
        await names.ensure(endpoint("127.41.0.2"))
    await names.ensure(endpoint("127.41.0.2"))
    assert records(region) == {f"blue.{DOMAIN}": ["127.41.0.2"]}


async def test_taking_a_name_away_twice_is_success(region: Region, maas: Maas) -> None:
    names = MaasEndpoints(maas)
    await names.ensure(endpoint("127.41.0.2"))
    await names.remove(endpoint())
    await names.remove(endpoint())
    assert records(region) == {}


async def test_a_name_that_goes_while_it_is_taken_away_is_gone(region: Region, maas: Maas) -> None:
    names = MaasEndpoints(maas)
    await names.ensure(endpoint("127.41.0.2"))
    region.faults.add(Fault(where="maas DELETE dnsresources/*", how=How.REFUSE, status=404))
    await names.remove(endpoint())


async def test_a_name_that_cannot_be_is_invalid(maas: Maas) -> None:
    wrong = Endpoint(cluster_uid="u", name=f"two.labels.{DOMAIN}")
    with pytest.raises((Invalid, NotFound)):
        await MaasEndpoints(maas).ensure(wrong)
