"""Recorded answers of Ceph, read as our client would hand them on."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from domain.storage import Observation
from domain.storage_answers import Answers, observed

RECORDED = Path(__file__).parent.parent / "data" / "ceph"
AT = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def answers(case: str = "ok") -> Answers:
    """All that one look asks for; `case` is how the cluster was."""
    return Answers(
        recorded(f"health-full.{case}"),
        recorded("summary.reef" if case == "reef" else "summary"),
        recorded("host"),
        recorded("daemon-rgw"),
    )


def seen(case: str = "ok") -> Observation:
    return observed(answers(case), AT)
