"""The key is looked at once there is something to look at, and before anything is sealed."""

import os
from pathlib import Path

import grpc
import httpx2
import pytest
from sqlalchemy import text

from protos.gen.kaas import api_pb2 as pb
from settings import Settings
from store import schema
from store.engine import Database
from store.keys import KEY_BYTES
from store.sealing import Seal
from store.secrets import Secrets
from tests.api.caller import Caller, refused, wanted

ANOTHERS = "cluster/1/login"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/empty.db"


@pytest.fixture
def settings(settings: Settings, url: str) -> Settings:
    """An API that is started before its database is migrated."""
    return settings.model_copy(update={"database": url})


async def test_nobody_is_let_in_before_there_are_tables(caller: Caller, url: str) -> None:
    refusal = await refused(caller.cluster.CreateCluster(wanted(), timeout=20))
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert refusal.reason == "DATABASE_UNAVAILABLE"
    assert "run python -m store migrate" in refusal.message
    await schema.upgrade(url)
    reply = await caller.cluster.CreateCluster(wanted(), timeout=20)
    assert reply.ok


async def test_nothing_is_sealed_with_a_key_that_proves_wrong_later(
    caller: Caller, addresses: tuple[str, str], url: str
) -> None:
    await schema.upgrade(url)
    database = Database(url)
    await Secrets(database, Seal(os.urandom(KEY_BYTES))).keep(ANOTHERS, b"a secret")
    refusal = await refused(caller.cluster.CreateCluster(wanted(), timeout=20))
    assert refusal.reason == "WRONG_KEY"
    listed = await refused(caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20))
    assert listed.reason == "WRONG_KEY", "it goes on with nothing"
    async with httpx2.AsyncClient(base_url=f"http://{addresses[1]}", trust_env=False) as http:
        answer = await http.get("/readyz", timeout=20)
    assert answer.status_code == 503
    assert f"[-]database: the secret {ANOTHERS} does not open with key file-1" in answer.text
    async with database.session(writes=True) as session:
        await session.execute(text("DELETE FROM secrets"))
    await database.close()
    assert (await caller.cluster.CreateCluster(wanted(), timeout=20)).ok, "none was sealed yet"
