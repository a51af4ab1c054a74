import json
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.__main__ import Api
from api.build import Build
from api.launch import client
from cli import doctor
from settings import Settings
from tests.api.caller import NOBODY
from tests.cli.peer import Peer, http_served, served
from tests.cli.running import Windlass


async def sheet(windlass: Windlass, *arguments: str) -> tuple[int, dict[str, Any]]:
    outcome = await windlass("doctor", "-o", "json", *arguments)
    document = json.loads(outcome.out)
    assert document["ok"] is (outcome.code == 0)
    return outcome.code, {item["check"]: item for item in document["items"]}


async def test_a_healthy_site_passes(peer: Peer, windlass: Windlass) -> None:
    code, found = await sheet(windlass)
    assert code == 0
    assert {item["state"] for item in found.values()} <= {"ok", "warn"}
    for check in ("grpc", "version", "livez", "readyz", "clock", "state"):
        assert found[check]["state"] == "ok", found[check]
    assert all(found[f"health {service}"]["state"] == "ok" for service in peer.serving)


async def test_every_service_of_a_server_is_asked_after(tmp_path: Path) -> None:
    settings = Settings(
        key_file=tmp_path / "seal.key", database=f"sqlite+aiosqlite:///{tmp_path}/w"
    )
    api = Api(settings, await client(NOBODY, "default"), Build())
    served = {service.name for service in api.services}
    assert set(doctor.SERVICES) == {name for name in served if not name.startswith("grpc.")}
    await api.stop()


async def test_what_access_to_temporal_means_is_said(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = await sheet(windlass)
    assert found["temporal access"]["state"] == "ok"
    assert "stop, delay and repeat work" in found["temporal access"]["detail"]
    monkeypatch.setenv("WINDLASS_TEMPORAL__ADDRESS", "temporal:7233")
    _, found = await sheet(windlass)
    assert found["temporal access"]["state"] == "warn"
    assert "WINDLASS_TEMPORAL__CA_FILE" in found["temporal access"]["do"]
    monkeypatch.setenv("WINDLASS_TEMPORAL__MIGRATION", "read-old")
    _, found = await sheet(windlass)
    assert "any step done" in found["temporal access"]["detail"]


async def test_the_sheet_has_a_line_for_each_check(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("doctor")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["STATE", "CHECK", "FOUND", "DO"]
    assert all(line.split()[0] in {"ok", "warn", "fail"} for line in lines[1:])


async def test_a_server_that_is_not_ready_says_why(peer: Peer, windlass: Windlass) -> None:
    peer.doors["/readyz?verbose"] = (503, "[+]database: ok\n[-]temporal: away\nnot ready\n")
    code, found = await sheet(windlass)
    assert code == 1
    assert found["readyz"]["state"] == "fail"
    assert found["readyz"]["detail"] == "503: temporal: away"
    assert found["readyz"]["do"]


async def test_a_server_that_does_without_something_is_a_warning(
    peer: Peer, windlass: Windlass
) -> None:
    peer.doors["/readyz?verbose"] = (200, "[!]temporal: away; reads go on\nready\n")
    code, found = await sheet(windlass)
    assert code == 0
    assert found["readyz"]["state"] == "warn"
    assert found["readyz"]["detail"] == "temporal: away; reads go on"


@pytest.mark.parametrize(("seconds", "state"), [(-30, "warn"), (30, "warn"), (300, "fail")])
async def test_clocks_that_differ_are_noticed(
    peer: Peer, windlass: Windlass, seconds: int, state: str
) -> None:
    peer.clock_ahead = timedelta(seconds=seconds)
    _, found = await sheet(windlass)
    assert found["clock"]["state"] == state
    assert ("behind" if seconds > 0 else "ahead of") in found["clock"]["detail"]


async def test_another_version_is_a_warning(peer: Peer, windlass: Windlass) -> None:
    peer.version = "v9.9.9"
    code, found = await sheet(windlass)
    assert code == 0
    assert found["version"]["state"] == "warn"
    assert "there v9.9.9" in found["version"]["detail"]


async def test_services_that_do_not_serve_are_named(windlass: Windlass) -> None:
    from grpc_health.v1.health_pb2 import HealthCheckResponse as Health

    peer = Peer()
    peer.serving = {
        "cnct.kaas.api.Cluster": Health.NOT_SERVING,
        "windlass.v1.Operations": Health.SERVING,
    }
    async with served(peer), http_served(peer):
        code, found = await sheet(windlass, "--address", peer.address, "--http", peer.http)
    assert code == 1
    assert found["health cnct.kaas.api.Cluster"]["state"] == "fail"
    assert found["health windlass.v1.Operations"]["state"] == "ok"
    assert found["health google.longrunning.Operations"]["state"] == "warn"


async def test_nobody_there_is_the_first_thing_said(windlass: Windlass) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    code, found = await sheet(windlass, "--address", address, "--http", f"http://{address}")
    assert code == 1
    assert found["grpc"]["state"] == found["http"]["state"] == "fail"
    assert "make up" in found["grpc"]["do"]


async def test_what_is_missing_on_this_side_is_found(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    monkeypatch.setenv("WINDLASS_STATE", str(blocker / "state"))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, found = await sheet(windlass)
    assert code == 1
    assert found["state"]["state"] == "fail"
    assert found["kubectl"]["state"] == "warn"


async def test_settings_that_do_not_load_are_a_finding(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LOG_LEVEL", "deafening")
    code, found = await sheet(windlass)
    assert code == 1
    assert found["settings"]["state"] == "fail"
    assert "log_level" in found["settings"]["detail"]
