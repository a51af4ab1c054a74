"""API and worker together: what one of them gives to Temporal the other takes, and nobody reads."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from api.launch import workflow_id
from domain.operation import OperationId
from protos.gen.kaas import api_pb2 as pb
from store import schema
from store.sealing import Seal
from tests.api.caller import Caller, answered, wanted
from tests.programs.running import running, surroundings, told
from tests.support.load import limit
from workflows.sealed import ENCODING, Sealing

LOOK_SECONDS = 0.1


@pytest.fixture
async def environment(temporal: WorkflowEnvironment, queues: str, tmp_path: Path) -> dict[str, str]:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    return surroundings(
        WINDLASS_DATABASE=url,
        WINDLASS_KEY_FILE=str(tmp_path / "seal.key"),
        WINDLASS_LOG_FORMAT="json",
        WINDLASS_GRPC_ADDRESS="127.0.0.1:0",
        WINDLASS_HTTP_ADDRESS="127.0.0.1:0",
        WINDLASS_MAAS__API_KEY=":".join(uuid4().hex for _ in range(3)),
        WINDLASS_TEMPORAL__ADDRESS=temporal.client.service_client.config.target_host,
        WINDLASS_TEMPORAL__QUEUE_PREFIX=queues,
        WINDLASS_WORKER__METRICS_PORT="0",
    )


async def worked_on(handle: "WorkflowHandle[Any, Any]") -> WorkflowHistory:
    """Its history, once a worker has read the plan and asked for the first step."""
    asked = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    async with limit(60):
        while True:
            try:
                history = await handle.fetch_history()
            except RPCError:  # it has not been started yet
                history = WorkflowHistory(handle.id, [])
            if any(event.event_type == asked for event in history.events):
                return history
            await asyncio.sleep(LOOK_SECONDS)


def payloads(part: Any) -> Iterator[Payload]:
    """Everything in a history, as JSON has it, that is marked as sealed."""
    if isinstance(part, dict):
        if part.get("metadata", {}).get("encoding") == b64encode(ENCODING).decode():
            metadata = {name: b64decode(said) for name, said in part["metadata"].items()}
            yield Payload(metadata=metadata, data=b64decode(part["data"]))
        yield from payloads(list(part.values()))
    elif isinstance(part, list):
        for each in part:
            yield from payloads(each)


@pytest.mark.timeout(150)  # two programs of ours have to start first
async def test_a_cluster_is_worked_on_and_temporal_does_not_know_its_plan(
    environment: dict[str, str], temporal: WorkflowEnvironment, tmp_path: Path
) -> None:
    async with (
        running("-m", "api", environment=environment) as api,
        running("worker.py", "workflows", environment=environment),
    ):
        caller = Caller((await told(api, "ready"))["grpc"])
        masters = pb.ControlPlaneMachineSpec(count=1, instanceType="squirrel")
        asked = wanted(control_plane_nodes=masters)
        _, trailers = await answered(caller.cluster.CreateCluster(asked, timeout=20))
        operation = OperationId(trailers["windlass-operation"])
        await caller.close()
        history = await worked_on(temporal.client.get_workflow_handle(workflow_id(operation)))
    kept = b"".join(event.SerializeToString() for event in history.events)
    assert b"squirrel" not in kept
    seal = Seal.from_file(tmp_path / "seal.key")
    opened = await Sealing(seal, shows=True).decode(list(payloads(history.to_json_dict())))
    assert opened[0].data.decode() == f'"{operation}"'
    assert any(b"squirrel" in payload.data for payload in opened), "it was never said"
