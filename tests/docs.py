"""Pastes what the code says of itself into the documents: `make docs`. A test compares.

Everything above the mark in a document is written by hand; everything below it is pasted."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from cli.__main__ import app
from cli.origins import Origin, origins
from settings import Settings

ROOT = Path(__file__).parent.parent
COMMANDS = ROOT / "docs" / "cli.md"
SETTINGS = ROOT / "docs" / "settings.md"

MARK = "<!-- What follows is pasted by `make docs`. -->\n"
WIDTH = 88

FIRST_COMMANDS = ("make up", "make test")
"""What the first block of README.md tells a newcomer to type."""


def pasted() -> dict[Path, str]:
    """Every document that has a pasted part, as it should be."""
    parts = {COMMANDS: commands(), SETTINGS: settings()}
    return {path: _above(path) + MARK + part for path, part in parts.items()}


def commands() -> str:
    """The help text of every command, as it is shown on a terminal of this width."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("windlass", [], resilient_parsing=True, terminal_width=WIDTH)
    return "".join(f"\n## {path}\n\n```\n{text}\n```\n" for path, text in _helps(root, context))


def _helps(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context).strip()
    for name, inner in getattr(command, "commands", {}).items():
        below = inner.make_context(name, [], parent=context, resilient_parsing=True)
        yield from _helps(inner, below)


def settings() -> str:
    """Every setting with its default, one table for each group of them."""
    groups: dict[str, list[Origin]] = {}
    for each in origins(Settings.model_construct()):
        groups.setdefault(each.name.rpartition(".")[0], []).append(each)
    return "".join(_table(group, members) for group, members in groups.items())


def _table(group: str, members: list[Origin]) -> str:
    title = f"`{group}`" if group else "Everywhere"
    lines = [f"\n## {title}\n", "| setting | variable | default | meaning |", "|---|---|---|---|"]
    for each in members:
        default = f"`{text}`" if (text := _default(each.name)) else "–"
        lines.append(f"| `{each.name}` | `{each.variable}` | {default} | {each.description} |")
    return "\n".join(lines) + "\n"


def _default(name: str) -> str:
    """A default as it would be written into the variable."""
    value: Any = Settings.model_construct().model_dump(mode="json")
    for word in name.split("."):
        value = value[word]
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _above(path: Path) -> str:
    above, found, _ = path.read_text().partition(MARK)
    if not found:
        raise ValueError(f"{path.name} has no mark to paste below")
    return above


def main() -> None:
    for path, text in pasted().items():
        path.write_text(text)
        print(os.path.relpath(path))


if __name__ == "__main__":
    main()
