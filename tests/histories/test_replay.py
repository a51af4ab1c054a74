"""What an older worker began, this one can finish: every recorded history replays."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from domain.payload_format import Migration
from store.sealing import Seal
from workflows import runner
from workflows.sealed import converter
from workflows.serving import WORKFLOWS

RECORDED = {
    f"{path.parent.name}/{path.stem}": path.read_text()
    for path in sorted(Path(__file__).parent.glob("*/*.json"))
}

SECRET = re.compile(
    r"PRIVATE KEY|client-key-data|certificateKey|apiVersion|\b[a-z0-9]{6}\.[a-z0-9]{16}\b"
)
"""Keys, kubeconfigs and what kubeadm is configured with, and the tokens with which nodes join."""

TELLING = ("CreateCluster", "DeleteCluster", "ProvisionMachine")
"""Workflows in which every step is told whose machine it is about."""


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=runner(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(name, RECORDED[name]))


async def test_what_was_written_before_there_was_a_seal_replays_during_a_migration(
    seal: Seal,
) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=runner(),
        data_converter=converter(seal, Migration.READ_OLD),
    )
    name = next(iter(RECORDED))
    await replayer.replay_workflow(WorkflowHistory.from_json(name, RECORDED[name]))


def test_every_workflow_has_a_recorded_history() -> None:
    kinds = {name.rpartition("/")[2].split(".")[0] for name in RECORDED}
    assert kinds == {flow.__name__ for flow in WORKFLOWS}


def test_no_history_holds_a_secret() -> None:
    """Secrets travel by reference: a key or a token in a history would be one in Temporal. What a
    machine is told on the way to its cluster is found, so that a secret beside it would be."""
    for name, text in RECORDED.items():
        said = "\n".join([text, *opened(json.loads(text))])
        assert not SECRET.search(said), f"{name} holds a secret"
        if name.rpartition("/")[2].startswith(TELLING):
            assert "cluster_uid" not in text
            assert "cluster_uid" in said, f"nothing in {name} was opened"


def opened(history: Any) -> Iterator[str]:
    """What every payload in a history says; its JSON has them in base64."""
    if isinstance(history, dict):
        if isinstance(history.get("data"), str):
            yield b64decode(history["data"], validate=True).decode()
        yield from opened(list(history.values()))
    elif isinstance(history, list):
        for part in history:
            yield from opened(part)
