"""Wishes for a share of Ceph, and what becomes of data when its cluster is deleted."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from domain.wishes import DATA, STORAGE
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import operations_pb2 as ops
from settings import Settings, Temporal
from store import schema
from systems import Ceph
from tests.api.caller import NOBODY, Caller, refused, wanted

WITH_STORAGE = ((STORAGE, "true"),)
DELETE_IT = kaas.DeleteClusterMsg(name="hello")


@pytest.fixture
async def database_url(tmp_path: Path) -> str:
    """One database will do: nothing here is a question of it."""
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    return url


async def planned(caller: Caller, request: Any, *wishes: tuple[str, str]) -> list[str]:
    method = type(request).__name__.removesuffix("Msg")
    asked = ops.PlanRequest(
        method=f"cnct.kaas.api.Cluster/{method}", request=request.SerializeToString()
    )
    plan = await caller.operations.Plan(asked, timeout=20, metadata=wishes)
    return [step.verb for step in plan.steps]


async def test_what_becomes_of_data_has_to_be_said(caller: Caller) -> None:
    assert "storage.ensure_pool" in await planned(caller, wanted(), *WITH_STORAGE)
    assert "storage.ensure_pool" not in await planned(caller, wanted())
    await caller.cluster.CreateCluster(wanted(), timeout=20, metadata=WITH_STORAGE)
    refusal = await refused(caller.cluster.DeleteCluster(DELETE_IT, timeout=20))
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "DATA_AT_STAKE",
    )
    assert refusal.facts["pool"].startswith("wl-")
    assert "--keep-data" in refusal.facts["do"]
    assert "storage.delete_pool" not in await planned(caller, DELETE_IT, (DATA, "keep"))
    assert "storage.delete_pool" in await planned(caller, DELETE_IT, (DATA, "delete hello"))
    for bare in ("delete", "delete ", "delete hullo", "delete hello again"):
        refusal = await refused(
            caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, bare),))
        )
        assert refusal.reason == "DATA_AT_STAKE", bare
    strange = caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, "burn"),))
    assert (await refused(strange)).reason == "WISH_NOT_UNDERSTOOD"
    gone = caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, "delete hello"),))
    assert (await gone).status == "Deleting"
    otherwise = caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, "keep"),))
    assert (await refused(otherwise)).reason == "DATA_DECIDED"
    unsaid = caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, "delete"),))
    assert (await refused(unsaid)).reason == "DATA_AT_STAKE"
    again = caller.cluster.DeleteCluster(DELETE_IT, timeout=20, metadata=((DATA, "delete hello"),))
    assert (await again).status == "Deleting"


async def test_a_cluster_without_storage_is_deleted_as_ever(caller: Caller) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    assert (await caller.cluster.DeleteCluster(DELETE_IT, timeout=20)).ok


class TestWithoutCeph:
    @pytest.fixture
    def settings(self, database_url: str, tmp_path: Path) -> Settings:
        return Settings(
            database=database_url,
            key_file=tmp_path / "seal.key",
            grpc_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            temporal=Temporal(address=NOBODY),
            ceph=Ceph(urls=()),
        )

    async def test_nothing_can_be_shared(self, caller: Caller) -> None:
        call = caller.cluster.CreateCluster(wanted(), timeout=20, metadata=WITH_STORAGE)
        assert (await refused(call)).reason == "STORAGE_NOT_CONFIGURED"
        assert (await caller.cluster.CreateCluster(wanted(), timeout=20)).ok
