"""`windlass doctor`: is all there that the other commands need, and if not, what is to be done."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

from cli import config, versions
from cli.calling import EDGE, Call
from cli.complaints import Code, Complaint
from cli.printing import Column
from domain.payload_format import Migration

if TYPE_CHECKING:
    import httpx2

SECONDS = 3.0
"""For each thing asked. A doctor who is kept waiting has found something."""

EDGE_BESIDE = (
    *("CloudletInfo", "CloudletRefs", "ClusterRefs", "Controller", "Node", "Notify"),
    *("ClusterInstInfo", "AppInstInfo", "Exec", "AppInstMetrics", "CloudletMetrics"),
)
"""What is served of the edge beside the records that people describe."""

SERVICES = (
    "cnct.kaas.api.Cluster",
    *(f"windlass.v1.{name}" for name in ("Operations", "Clusters", "Health")),
    *(
        f"windlass.v1.{name}"
        for name in (
            "Audit",
            "Codec",
            "Instances",
            "Nodes",
            "Secrets",
            "Storage",
            "Tokens",
            "Users",
        )
    ),
    *("google.longrunning.Operations", "services.auth.AuthService", "stats.StatsService"),
    *("scheduler.InstanceService", "scheduler.NodeService"),
    *("v1alpha.PublicAPI", "windlass.node.v1.Window"),
    *(f"edgeproto.{name}Api" for name in (*EDGE, *EDGE_BESIDE)),
)
"""What a server of this version serves; a test holds it to that."""

SKEW_WARN_SECONDS = 2.0
SKEW_FAIL_SECONDS = 60.0
"""Date in HTTP has whole seconds, so less than two tell nothing."""

START = "start a server with make up, or name one with --address"

COLUMNS = (
    Column("STATE", lambda it: it["state"]),
    Column("CHECK", lambda it: it["check"]),
    Column("FOUND", lambda it: it["detail"]),
    Column("DO", lambda it: it["do"]),
)


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's sheet."""

    state: str
    """ok, warn or fail."""
    check: str
    detail: str
    do: str = ""


class Temporal(Protocol):
    """How our settings have the connection to Temporal."""

    @property
    def address(self) -> str: ...

    @property
    def migration(self) -> Migration: ...

    @property
    def is_private(self) -> bool: ...


async def examine(call: Call) -> int:
    """Look at everything and show it. Exits 1 if anything failed."""
    found: list[Finding] = []
    for part in (_grpc(call), _http(call.http, call.http_token), _here()):
        found += [finding async for finding in part]
    failed = any(finding.state == "fail" for finding in found)
    call.page.many(
        [asdict(finding) for finding in found],
        COLUMNS,
        lambda it: f"{it['state']}/{it['check']}",
        beside={"ok": not failed},
        none="",
    )
    return Code.FAILED if failed else Code.OK


async def _grpc(call: Call) -> AsyncIterator[Finding]:
    """The server's door for calls. If nobody is there, nothing else is asked."""
    begun = time.monotonic()
    if not await _connected(call):
        yield Finding("fail", "grpc", f"nothing answers at {call.address}", START)
        return
    taken = (time.monotonic() - begun) * 1000
    yield Finding("ok", "grpc", f"{call.address} answers within {taken:.0f} ms")
    for service in SERVICES:
        yield await _health(call, service)
    yield await _version(call)


async def _connected(call: Call) -> bool:
    """Whether a connection can be made. The first refusal is an answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while (state := call.channel.get_state(try_to_connect=True)).name != "READY":
                if state.name == "TRANSIENT_FAILURE":
                    return False
                await call.channel.wait_for_state_change(state)
            return True
    return False


async def _health(call: Call, service: str) -> Finding:
    import grpc
    from grpc_health.v1 import health_pb2

    ask = call.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    check = f"health {service}"
    try:
        reply = await ask(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return Finding("warn", check, "not served there", "use a server of this version")
        return Finding("warn", check, f"health is not told: {error.code().name}")
    word = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    if reply.status == health_pb2.HealthCheckResponse.SERVING:
        return Finding("ok", check, word)
    return Finding("fail", check, word, "the server's log and /readyz?verbose say why")


async def _version(call: Call) -> Finding:
    import grpc

    try:
        theirs = (await versions.server(call, SECONDS))["git_version"]
    except grpc.aio.AioRpcError as error:
        return Finding("fail", "version", f"the server answered {error.code().name}", START)
    ours = versions.client()
    if ours == theirs.removeprefix("v").split("+")[0]:
        return Finding("ok", "version", f"{ours} on both sides")
    do = "install the same version here as there"
    return Finding("warn", "version", f"here {ours or 'unknown'}, there {theirs or 'unknown'}", do)


async def _http(url: str, token: str) -> AsyncIterator[Finding]:
    """The server's HTTP door, its reasons not to be ready, which it may tell only those who have
    signed in, and its clock."""
    import httpx2

    async with httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as http:
        try:
            alive = await http.get("/livez")
            who = {"authorization": f"Bearer {token}"} if token else {}
            ready = await http.get("/readyz?verbose", headers=who)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            said = str(error) or type(error).__name__
            do = "name the right door with --http, or start a server with make up"
            yield Finding("fail", "http", f"{url}: {said}", do)
            return
    yield _door(alive, "livez", "restart the server; its log says why")
    yield _door(ready, "readyz", "mend what is named; the server takes work again by itself")
    yield _clock(alive.headers.get("date", ""))


def _door(answer: "httpx2.Response", check: str, do: str) -> Finding:
    """What a door said. Its lines begin with [+] for well, [!] for doing without, [-] for not."""
    lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
    without = [line[3:] for line in lines if line.startswith("[!]")]
    if answer.status_code == 200:
        return (
            Finding("warn", check, "; ".join(without), do)
            if without
            else Finding("ok", check, "ok")
        )
    reasons = [line[3:] for line in lines if line.startswith("[-]")] or lines[:5]
    return Finding("fail", check, f"{answer.status_code}: {'; '.join(reasons + without)}", do)


def _clock(date: str) -> Finding:
    try:
        skew = time.time() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Finding("warn", "clock", "the server does not tell its time")
    if abs(skew) <= SKEW_WARN_SECONDS:
        return Finding("ok", "clock", "the same here and there")
    state = "fail" if abs(skew) > SKEW_FAIL_SECONDS else "warn"
    where = "ahead of" if skew > 0 else "behind"
    detail = f"ours is {abs(skew):.0f} s {where} the server's"
    return Finding(state, "clock", detail, "let both follow one time server")


def _temporal(temporal: Temporal) -> Finding:
    """What it means to reach Temporal, as our settings have it."""
    if temporal.migration.reads_old:
        detail = (
            f"migration is {temporal.migration}: whoever reaches Temporal can have any step done"
        )
        do = "unset WINDLASS_TEMPORAL__MIGRATION once what an older release began has ended"
        return Finding("warn", "temporal access", detail, do)
    may = "whoever reaches Temporal can stop, delay and repeat work, and command none of their own"
    if not temporal.is_private:
        do = "set WINDLASS_TEMPORAL__CA_FILE, __CERT_FILE and __KEY_FILE, or have a private network"
        where = f"without TLS to {temporal.address}"
        return Finding("warn", "temporal access", f"{where}; {may}", do)
    return Finding("ok", "temporal access", may)


async def _here() -> AsyncIterator[Finding]:
    """What is needed on this side."""
    if path := shutil.which("kubectl"):
        yield Finding("ok", "kubectl", path)
    else:
        do = "install kubectl to use the clusters you make"
        yield Finding("warn", "kubectl", "not on PATH", do)
    try:
        settings = config.loaded()
    except Complaint as error:
        yield Finding("fail", "settings", "; ".join(error.lines), error.do)
        return
    yield _temporal(settings.temporal)
    state = settings.state
    place = state.absolute()
    while not place.exists():
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        yield Finding("ok", "state", f"{state} can be written")
    else:
        do = f"make {place} writable, or name another place with WINDLASS_STATE"
        yield Finding("fail", "state", f"{state} cannot be written", do)
        return
    yield _privacy()


def _privacy() -> Finding:
    """Whether what the processes on this machine keep is for their user alone."""
    import logs

    settings = config.loaded()
    if not (found := logs.exposed(settings)):
        return Finding("ok", "privacy", "nobody else can read what is kept")
    named = ", ".join(map(str, found[:3])) + (" and more" if len(found) > 3 else "")
    do = logs.close_to_others(settings, found)
    return Finding("warn", "privacy", f"others can read {named}", do)
