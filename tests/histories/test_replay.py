"""What an older worker began, this one can finish: every recorded history replays."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workflows import runner
from workflows.serving import WORKFLOWS

RECORDED = {
    f"{path.parent.name}/{path.stem}": path.read_text()
    for path in sorted(Path(__file__).parent.glob("*/*.json"))
}


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=runner(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(name, RECORDED[name]))


def test_every_workflow_has_a_recorded_history() -> None:
    kinds = {name.rpartition("/")[2].split(".")[0] for name in RECORDED}
    assert kinds == {flow.__name__ for flow in WORKFLOWS}


def test_no_history_holds_a_secret() -> None:
    """Secrets travel by reference: a key or a token in a history would be one in Temporal."""
    for name, text in RECORDED.items():
        for word in ("PRIVATE KEY", "client-key-data", "certificateKey", "apiVersion"):
            assert word not in text, f"{name} holds {word}"
