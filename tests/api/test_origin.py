"""Whose address counts: the caller's own, unless a proxy that is trusted calls for somebody."""

from ipaddress import ip_network
from typing import NamedTuple

import grpc
import httpx2
import pytest

from api.origin import ELSEWHERE, Origins
from domain.access import FREE_TRIES
from protos.gen.koor.api.services.auth import auth_pb2 as pb
from protos.gen.ops import access_pb2 as ours
from settings import Auth, Settings
from store.access_rows import AttemptRow
from store.engine import Database
from tests.api.caller import Caller, refused
from tests.api.signed import Entry, bearer, counted, people
from tests.api.web import call
from tests.support.passwords import WRONG

PROXIES = ("10.0.0.0/8", "2001:db8:ffff::/48", "127.0.0.1/32")
CALLER, OTHER = "203.0.113.7", "203.0.113.8"

LOGIN = pb.DESCRIPTOR.services_by_name["AuthService"].methods_by_name["Login"]
GUESS = pb.LoginRequest(username="vic", password=WRONG)


class Line(NamedTuple):
    """Somebody who calls, and what stands in the headers."""

    whence: str
    said: tuple[str | bytes, ...] = ()

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return [("x-forwarded-for", each) for each in self.said]

    def peer(self) -> str:
        return self.whence


@pytest.mark.parametrize(
    ("peer", "where"),
    [
        ("ipv4:10.1.2.3:4711", "10.1.2.3"),
        ("10.1.2.3:4711", "10.1.2.3"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:4711", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::/64"),
        ("ipv6:[::ffff:10.1.2.3]:4711", "10.1.2.3"),
        ("unix:", ELSEWHERE),
        ("", ELSEWHERE),
    ],
)
def test_a_place_is_an_address_or_a_network(peer: str, where: str) -> None:
    assert Origins().place(Line(peer)) == where


@pytest.mark.parametrize(
    ("peer", "said", "where"),
    [
        pytest.param("198.51.100.9:1", (CALLER,), "198.51.100.9", id="forged by a caller"),
        pytest.param("10.0.0.1:1", (), "10.0.0.1", id="a proxy for itself"),
        pytest.param("ipv4:10.0.0.1:1", (CALLER,), CALLER, id="by a proxy"),
        pytest.param("[::ffff:10.0.0.1]:1", (CALLER,), CALLER, id="by a proxy on both families"),
        pytest.param("10.0.0.1:1", (f"1.1.1.1, {CALLER}",), CALLER, id="forged through a proxy"),
        pytest.param("10.0.0.1:1", (f"1.1.1.1,{CALLER}, 10.9.9.9",), CALLER, id="two proxies"),
        pytest.param("10.0.0.1:1", ("1.1.1.1", CALLER, "10.9.9.9"), CALLER, id="a header each"),
        pytest.param("10.0.0.1:1", ("10.3.3.3, 10.2.2.2",), "10.3.3.3", id="nobody but proxies"),
        pytest.param("10.0.0.1:1", (f"{CALLER}:4711",), CALLER, id="with a port"),
        pytest.param(
            "ipv6:%5B2001:db8:ffff::1%5D:1",
            ("10.0.0.9, 2001:db8:1:2::3",),
            "2001:db8:1:2::/64",
            id="by a proxy over IPv6",
        ),
        pytest.param(
            "10.0.0.1:1", ("[2001:db8:1:2::3]:443",), "2001:db8:1:2::/64", id="IPv6 with a port"
        ),
        pytest.param("unix:", (CALLER,), ELSEWHERE, id="through a socket in the file system"),
        pytest.param("10.0.0.1:1", ("unknown",), "10.0.0.1", id="unknown to the proxy"),
        pytest.param("10.0.0.1:1", (f"{CALLER}, x, 10.9.9.9",), "10.9.9.9", id="rubbish between"),
        pytest.param("10.0.0.1:1", (f"{CALLER},",), "10.0.0.1", id="nothing at the end"),
        pytest.param("10.0.0.1:1", ("",), "10.0.0.1", id="empty"),
        pytest.param("10.0.0.1:1", (b"\xff",), "10.0.0.1", id="not even text"),
        pytest.param("10.0.0.1:1", ("203.0.113.007",), "10.0.0.1", id="not quite an address"),
        pytest.param("10.0.0.1:1", ("1.1.1.1," * 999 + CALLER,), CALLER, id="a long one"),
    ],
)
def test_the_header_counts_as_far_as_proxies_wrote_it(
    peer: str, said: tuple[str | bytes, ...], where: str
) -> None:
    origins = Origins([ip_network(each) for each in PROXIES])
    assert origins.place(Line(peer, said)) == where
    assert Origins().place(Line(peer, said)) == Origins().place(Line(peer))


class Guesses(NamedTuple):
    """Signing in on either door, with that header."""

    entry: Entry
    http: httpx2.AsyncClient

    async def native(self, said: str) -> str:
        asked = self.entry.auth.Login(GUESS, metadata=(("x-forwarded-for", said),), timeout=20)
        return (await refused(asked)).code.name

    async def connect(self, said: str) -> str:
        return (await self._web("json", said)).upper()

    async def grpc_web(self, said: str) -> str:
        return (await self._web("grpc-web+proto", said)).upper()

    async def _web(self, kind: str, said: str) -> str:
        return (await call(self.http, kind, LOGIN, GUESS, **{"x-forwarded-for": said})).code


DOORS = (Guesses.native, Guesses.connect, Guesses.grpc_web)
REFUSED, THROTTLED = (
    grpc.StatusCode.UNAUTHENTICATED.name,
    grpc.StatusCode.RESOURCE_EXHAUSTED.name,
)


@pytest.fixture
def proxies() -> tuple[str, ...]:
    return PROXIES


@pytest.fixture
def settings(settings: Settings, proxies: tuple[str, ...]) -> Settings:
    auth = Auth.model_validate({"mode": "required", "trusted_proxies": proxies})
    return settings.model_copy(update={"auth": auth})


@pytest.fixture
async def tokens(database: Database) -> dict[str, str]:
    return await people(database)


@pytest.fixture
def guesses(tokens: dict[str, str], caller: Caller, http: httpx2.AsyncClient) -> Guesses:
    assert tokens
    return Guesses(Entry(caller.channel), http)


async def sources(guesses: Guesses, tokens: dict[str, str]) -> list[str]:
    """Where the audit trail says that calls came from, the newest last."""
    asked = ours.ListAuditRequest()
    listed = await guesses.entry.audit.List(asked, metadata=bearer(tokens["ada"]), timeout=20)
    return [line.source for line in listed.lines]


async def test_both_doors_count_guesses_by_whom_a_proxy_calls_for(
    guesses: Guesses, tokens: dict[str, str], database: Database
) -> None:
    doors = [*DOORS, *DOORS][:FREE_TRIES]
    said = f"1.1.1.1, {CALLER}"
    assert [await guess(guesses, said) for guess in doors] == [REFUSED] * FREE_TRIES
    assert await sources(guesses, tokens) == [CALLER] * FREE_TRIES
    await counted(database, AttemptRow.failures + 5)  # so that a slow machine is no help
    for guess in DOORS:
        assert await guess(guesses, f"2.2.2.2, {CALLER}") == THROTTLED
    for guess in DOORS:
        assert await guess(guesses, OTHER) == REFUSED


async def test_the_audit_trail_tells_whom_a_proxy_calls_for(
    guesses: Guesses, tokens: dict[str, str]
) -> None:
    said = {"x-forwarded-for": f"1.1.1.1, {CALLER}"}
    admin = bearer(tokens["ada"])
    ask = ours.CreateTokenRequest(label="ci")
    made = await guesses.entry.tokens.Create(ask, metadata=(*admin, *said.items()), timeout=20)
    assert made.token.source == CALLER
    create = ours.DESCRIPTOR.services_by_name["Tokens"].methods_by_name["Create"]
    for kind in ("json", "grpc-web+proto"):
        answer = await call(guesses.http, kind, create, ask, **dict(admin), **said)
        assert answer.code == "ok"
    rest = await guesses.http.post(
        "/api/v1/cluster/pool", json={"name": "hello"}, headers={**dict(admin), **said}
    )
    edge = await guesses.http.post(
        "/create/operator", json={"key": {"name": "acme"}}, headers={**dict(admin), **said}
    )
    assert (rest.status_code, edge.status_code) == (400, 200)
    assert set(await sources(guesses, tokens)) == {CALLER}


class TestWithoutProxies:
    @pytest.fixture
    def proxies(self) -> tuple[str, ...]:
        return ()

    async def test_nobody_is_believed(
        self, guesses: Guesses, tokens: dict[str, str], database: Database
    ) -> None:
        for number in range(FREE_TRIES):
            guess = DOORS[number % len(DOORS)]
            assert await guess(guesses, f"203.0.113.{number}") == REFUSED
        await counted(database, AttemptRow.failures + 5)
        for guess in DOORS:
            assert await guess(guesses, OTHER) == THROTTLED
        assert set(await sources(guesses, tokens)) == {"127.0.0.1"}
