"""Whoever catches a cancel raises it again, or is listed here with a reason.

A task that swallows its cancel cannot be stopped: a stream outlives its caller, a worker its drain.
`except BaseException` catches it too, and so does `except:`."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import ROOT, modules

CATCHES = frozenset({"CancelledError", "BaseException"})

ON_PURPOSE = {
    "clients/maas/transport.py:_seen_through": "MAAS's answer comes first, and it is raised then",
    "cli/watching.py:__aexit__": "waits for a task that it has just cancelled itself",
    "workflows/together.py:ended": "lanes and undos end first; whoever waits asks afterwards",
}
"""Where a cancel ends, and why it may."""


def names(node: ast.expr | None) -> set[str]:
    """The exceptions an expression names, however they are spelled."""
    if node is None:
        return {"BaseException"}
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
    return found


def raises(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends in a raise."""
    return isinstance(handler.body[-1], ast.Raise)


def ends_there(node: ast.AST) -> bool:
    """Whether a cancel ends in this handler, or in this call of `suppress`."""
    if isinstance(node, ast.ExceptHandler):
        return bool(names(node.type) & CATCHES) and not raises(node)
    if isinstance(node, ast.Call) and "suppress" in names(node.func):
        return any(names(argument) & CATCHES for argument in node.args)
    return False


def swallowing(text: str) -> Iterator[str]:
    """The functions of a module in which a cancel may end."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(ends_there(node) for node in ast.walk(function)):
            yield function.name


def test_a_cancel_that_is_caught_is_raised_again() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for path in modules()
        for name in swallowing(path.read_text())
    }
    assert found == set(ON_PURPOSE)


@pytest.mark.parametrize(
    "body",
    [
        "try: x()\n except CancelledError: pass",
        "try: x()\n except (ValueError, asyncio.CancelledError): pass",
        "try: x()\n except BaseException: pass",
        "try: x()\n except: pass",
        "with suppress(asyncio.CancelledError): x()",
        "with contextlib.suppress(OSError, asyncio.CancelledError): x()",
    ],
)
def test_a_swallowed_cancel_is_found(body: str) -> None:
    assert list(swallowing(f"def f():\n {body}\n")) == ["f"]


@pytest.mark.parametrize(
    "body",
    [
        "try: x()\n except asyncio.CancelledError:\n  y()\n  raise",
        "try: x()\n except Exception: pass",
        "with suppress(OSError): x()",
    ],
)
def test_other_catches_are_let_be(body: str) -> None:
    assert not list(swallowing(f"def f():\n {body}\n"))
