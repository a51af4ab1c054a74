"""A task that nobody awaits may end by an exception without a word. What goes on for as long as a
process lives is kept by `supervision.py`; every other place that begins a task is listed here."""

import ast

from tests.architecture.tree import ROOT

BEGINS = frozenset({"create_task", "ensure_future"})

AWAITED = frozenset(
    {
        "activities/instances.py",
        "activities/storage_watch.py",
        "activities/waiting.py",
        "api/browsers.py",
        "api/edge/notify.py",
        "api/edge/showing.py",
        "api/front.py",
        "api/listener.py",
        "api/relay.py",
        "api/web.py",
        "store/lookout.py",
        "store/window.py",
        "worker.py",
        "workflows/connecting.py",
    }
)
"""Whoever began it waits for it, or puts it down, where it was begun."""

HEEDED = {
    "api/admission.py": "whoever asks next waits for it; close ends it",
    "api/audit.py": "whoever asked for the line waits for it, and close waits for the rest",
    "api/audit_folds.py": "writes what was counted; close writes the rest",
    "api/door.py": "ends with its call",
    "api/edge/hearing.py": "tries until it is done; close waits for it",
    "api/edge/presence.py": "kept and ended by whoever serves",
    "api/edge/streams.py": "ends with its stream",
    "api/kudo/strays.py": "one look, which says what went wrong with it",
    "api/launch.py": "says what went wrong; the sweep does what it did not",
    "store/gather.py": "tells all who asked what went wrong; the next who asks begins another",
    "store/pulse.py": "goes on after an error; the next who watches begins another",
    "store/tail.py": "goes on after an error; the next who follows begins another",
    "supervision.py": "begins anew what ended",
}
"""Who sees how it ends."""


def test_no_task_is_begun_that_nobody_sees_the_end_of() -> None:
    looked_at = [ROOT / "worker.py", ROOT / "supervision.py"]
    for package in ("activities", "api", "store"):
        looked_at += sorted((ROOT / package).rglob("*.py"))
    found = {
        str(path.relative_to(ROOT))
        for path in [*looked_at, ROOT / "workflows/connecting.py"]
        if any(
            isinstance(node, ast.Attribute) and node.attr in BEGINS
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    beyond = found - AWAITED - HEEDED.keys()
    assert not beyond, "keep it by a Supervisor, or say here who sees how it ends"
