"""The HTTP door: alive, ready, and what is measured."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from temporalio.testing import WorkflowEnvironment

from api.__main__ import Api
from protos.gen.kaas import api_pb2 as pb
from settings import Auth, Settings, Temporal
from store import schema
from tests.api.caller import Caller


async def fetched(addresses: tuple[str, str], path: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=f"http://{addresses[1]}", trust_env=False) as http:
        return await http.get(path, timeout=20)


async def test_it_is_alive(addresses: tuple[str, str]) -> None:
    answer = await fetched(addresses, "/livez")
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_it_is_ready_while_temporal_is_away(addresses: tuple[str, str]) -> None:
    answer = await fetched(addresses, "/readyz")
    assert (answer.status_code, answer.text) == (200, "ready\n")
    answer = await fetched(addresses, "/readyz?verbose")
    assert answer.status_code == 200
    assert answer.text.splitlines() == [
        "[+]database: ok",
        "[!]temporal: away; what is accepted starts once it is back",
        "ready",
    ]


class TestWithoutTables:
    @pytest.fixture
    def settings(self, settings: Settings, tmp_path: Path) -> Settings:
        empty = f"sqlite+aiosqlite:///{tmp_path}/empty.db"
        return settings.model_copy(update={"database": empty})

    async def test_it_is_not_ready_before_the_database_is(self, addresses: tuple[str, str]) -> None:
        answer = await fetched(addresses, "/readyz")
        assert answer.status_code == 503
        lines = answer.text.splitlines()
        newest = schema.newest()
        assert lines[0] == f"[-]database: not migrated to {newest}: run python -m store migrate"
        assert lines[-1] == "not ready"
        assert (await fetched(addresses, "/livez")).status_code == 200


class TestWithoutTablesBehindASignIn:
    @pytest.fixture
    def settings(self, settings: Settings, tmp_path: Path) -> Settings:
        empty = f"sqlite+aiosqlite:///{tmp_path}/empty.db"
        closed = {"database": empty, "auth": Auth(mode="required")}
        return settings.model_copy(update=closed)

    async def test_strangers_are_not_told_why(self, addresses: tuple[str, str]) -> None:
        ready = await fetched(addresses, "/readyz?verbose")
        assert (ready.status_code, ready.text) == (503, "not ready\n")
        url, token = f"http://{addresses[1]}", {"authorization": "Bearer anything"}
        async with httpx2.AsyncClient(base_url=url, trust_env=False, headers=token) as http:
            assert (await http.get("/readyz", timeout=20)).text == "not ready\n"
            assert (await http.get("/metrics", timeout=20)).status_code == 503


class TestInNoNamespace:
    @pytest.fixture
    def settings(self, settings: Settings, temporal: WorkflowEnvironment) -> Settings:
        target = temporal.client.service_client.config.target_host
        nowhere = Temporal(address=target, namespace="nowhere")
        return settings.model_copy(update={"temporal": nowhere})

    async def test_it_says_that_the_namespace_is_missing(self, addresses: tuple[str, str]) -> None:
        answer = await fetched(addresses, "/readyz?verbose")
        assert answer.status_code == 200
        assert "[!]temporal: there is no namespace nowhere; " in answer.text


async def test_it_is_not_ready_while_it_goes_down(
    api: Api, addresses: tuple[str, str], caller: Caller
) -> None:
    async with httpx2.AsyncClient(base_url=f"http://{addresses[1]}", trust_env=False) as http:
        assert (await http.get("/readyz", timeout=20)).status_code == 200
        stopping = asyncio.create_task(api.stop())
        await asyncio.sleep(0)
        answer = await http.get("/readyz", timeout=20)
        assert answer.status_code == 503
        assert "[-]server: going down" in answer.text
        await stopping


async def test_calls_are_measured(addresses: tuple[str, str], caller: Caller) -> None:
    await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    text = (await fetched(addresses, "/metrics")).text
    assert (
        'windlass_grpc_calls_total{code="OK",method="GetClusterList",'
        'service="cnct.kaas.api.Cluster"} 1.0' in text
    )
    assert "process_resident_memory_bytes" in text


async def test_other_paths_are_not_found(addresses: tuple[str, str]) -> None:
    assert (await fetched(addresses, "/nothing")).status_code == 404
