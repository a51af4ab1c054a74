"""When a function or a module grows past its limit, a noun is missing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, files, modules

FUNCTION_LINES = 70
MODULE_LINES = 400
HANDLER_LINES = 250

UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
"""Written so that this file does not find itself."""

UNREAD = frozenset({"LICENSE"})


def limit(path: Path) -> int:
    """The folders of `api/` hold the handlers of one contract each."""
    room, *inner = path.relative_to(ROOT).parts
    return HANDLER_LINES if room == "api" and len(inner) > 1 else MODULE_LINES


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_can_be_read_at_one_sitting(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= limit(path)
    assert not [found for found in functions(path) if found[1] > FUNCTION_LINES]


def test_nothing_is_left_unfinished() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        if path.name not in UNREAD
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if UNFINISHED.search(line)
    }
    assert not found
