"""What is measured is described: an alarm can only be raised over a name that is known."""

import re
from pathlib import Path

import pytest

from api.meters import Meters

DOCS = Path(__file__).parents[2] / "docs"
STANDARD = ("process_", "python_")
"""What every process of that kind counts is named by these alone."""


@pytest.mark.parametrize("document", ["operating.md", "api.md"])
def test_every_metric_is_described(document: str) -> None:
    described = (DOCS / document).read_text()
    measured = set(re.findall(r"^# TYPE (\w+)", Meters().text().decode(), re.MULTILINE))
    ours = {name for name in measured if not name.startswith(STANDARD)}
    assert len(ours) == 6
    assert all(re.search(rf"\b{name}\b", described) for name in ours)
