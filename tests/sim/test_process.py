"""`python -m sim`, where it cannot start: it says why, and what to do."""

import json
import secrets
import socket
from pathlib import Path

import httpx2
import pytest

from tests.programs.running import Ending, ended, running, surroundings


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return surroundings(
        WINDLASS_STATE=str(tmp_path),
        WINDLASS_MAAS__API_KEY_FILE=str(tmp_path / "maas.key"),
        WINDLASS_SITE__MACHINES="3",
        WINDLASS_SITE__NETWORK=f"127.{100 + secrets.randbelow(100)}",
        WINDLASS_SITE__PORT="0",
    )


async def site(environment: dict[str, str], *words: str) -> Ending:
    return await ended("-m", "sim", *words, environment=environment)


async def test_a_port_in_use_is_one_line_and_a_failure(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        environment["WINDLASS_SITE__PORT"] = str(port)
        said, do = (await site(environment)).refusal
    assert said.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")
    assert "WINDLASS_SITE__PORT" in do


async def test_a_key_that_cannot_be_read_is_one_line_and_a_failure(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "maas.key").mkdir()
    said, do = (await site(environment)).refusal
    assert said.startswith(f"error: {tmp_path}/maas.key cannot be read: ")
    assert "WINDLASS_MAAS__API_KEY_FILE" in do


@pytest.mark.parametrize(
    "content", [json.dumps([{"where": "maas *", "how": "whenever"}]), "no list", None]
)
async def test_faults_that_are_none_are_a_failure_to_start(
    content: str | None, environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "faults.json"
    if content is not None:
        path.write_text(content)
    environment["WINDLASS_SITE__FAULTS_FILE"] = str(path)
    said, *_, do = (await site(environment)).refusal
    assert said.startswith(f"error: {path} is no list of faults: ")
    assert "WINDLASS_SITE__FAULTS_FILE" in do


async def test_a_fault_that_nobody_knows_is_a_failure_to_start(environment: dict[str, str]) -> None:
    said, do = (await site(environment, "--fault", "dpkg-locked", "--fault", "sulks")).refusal
    assert said == "error: no fault is called 'sulks'"
    assert "dpkg-locked" in do


async def test_a_site_begins_with_the_faults_it_is_given(environment: dict[str, str]) -> None:
    words = (
        "-m",
        "sim",
        "--fault",
        "dpkg-locked,times=3",
        "--fault",
        '{"where": "*", "how": "hang"}',
    )
    async with running(*words, environment=environment) as process:
        assert process.stdout is not None
        url = json.loads(await process.stdout.readline())["maas"]
        async with httpx2.AsyncClient(trust_env=False) as http:
            plan = (await http.get(url.removesuffix("MAAS/") + "site/faults")).json()
    shown = [(each["fault"]["where"], each["fault"]["times"]) for each in plan]
    assert shown == [("dpkg *", 3), ("*", 1)]


async def test_a_state_that_cannot_be_kept_is_one_line_and_a_failure(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    environment["WINDLASS_STATE"] = str(tmp_path / "file")
    said, do = (await site(environment)).refusal
    assert str(tmp_path / "file") in said
    assert "WINDLASS_STATE" in do
