"""Time limits of tests grow with the load of the machine: a fixed one fails where it is busy."""

import ast
import os
from pathlib import Path

import pytest

from tests.support.load import MOST, grown

TESTS = Path(__file__).parent.parent

FIXED = {"bench", "conformance", "reliability"}
"""What measures is held to its own figures, and runs alone."""

SHORT_SECONDS = 2
"""A shorter one waits for something that is not to happen."""


def is_short(limit: ast.expr) -> bool:
    if not isinstance(limit, ast.Constant) or not isinstance(limit.value, int | float):
        return False
    return limit.value < SHORT_SECONDS


def fixed_limits(path: Path) -> list[int]:
    """The lines of calls of `asyncio.timeout` with a limit for a quiet machine."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "asyncio.timeout"
        and not is_short(call.args[0])
        and not ast.unparse(call.args[0]).startswith("grown(")
    ]


def test_no_test_has_a_limit_that_only_a_quiet_machine_meets() -> None:
    tests = (path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in FIXED)
    found = {str(path.relative_to(TESTS)): fixed_limits(path) for path in tests}
    found.pop("support/load.py")
    assert not {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize(("load", "times"), [(0.0, 1), (1.0, 1), (3.0, 3), (100.0, MOST)])
def test_limits_grow_with_the_load(
    load: float, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (load * cores, 0.0, 0.0))
    assert grown(20) == 20 * times


def test_so_does_the_time_of_this_test(request: pytest.FixtureRequest) -> None:
    limit = request.node.get_closest_marker("timeout").args[0]
    assert float(request.config.getini("timeout")) <= limit


def test_a_fixed_limit_is_found(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text("asyncio.timeout(20)\nasyncio.timeout(0.5)\nlimit(20)\n")
    assert fixed_limits(sample) == [1]
