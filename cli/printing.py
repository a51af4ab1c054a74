"""Answers on paper: the same document as a table for people or as JSON, YAML or names for programs.

A document is a dictionary of plain values with keys in snake_case. Its keys are promised: they may
grow in number, and never change or go."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Document: TypeAlias = dict[str, Any]


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


FOR_PROGRAMS = frozenset({Format.JSON, Format.YAML, Format.NAME})
"""The formats in which nothing else may appear on stdout."""

STYLES = {
    "RUNNING": "green",
    "SUCCEEDED": "green",
    "Ready": "green",
    "ok": "green",
    "PROVISIONING": "cyan",
    "RECONCILING": "cyan",
    "REQUESTED": "cyan",
    "STOPPING": "yellow",
    "DEGRADED": "yellow",
    "CANCELLED": "yellow",
    "SUPERSEDED": "yellow",
    "warn": "yellow",
    "ERROR": "red",
    "FAILED": "red",
    "Failed": "red",
    "fail": "red",
}
"""Words that stand in a cell of their own and deserve a colour."""


@dataclass(frozen=True)
class Column:
    """A column of a table. A wide one is shown with `-o wide` only."""

    title: str
    cell: Callable[[Document], object]
    wide: bool = False


class Page:
    """Where a command writes: answers to stdout, everything said beside them to stderr."""

    def __init__(self, form: Format = Format.TABLE, color: bool | None = None) -> None:
        self.form = form
        self._color = color

    @property
    def for_programs(self) -> bool:
        return self.form in FOR_PROGRAMS

    @property
    def out(self) -> "Console":
        return console(sys.stdout, self._color)

    @property
    def err(self) -> "Console":
        return console(sys.stderr, self._color)

    @property
    def talk(self) -> "Console":
        """Where progress is shown: on stdout, unless a program reads that."""
        return self.err if self.for_programs else self.out

    def say(self, text: str) -> None:
        """Tell people something. Programs reading stdout do not see it."""
        self.talk.print(tame(text, keep="\n"))

    def document(self, document: Document) -> None:
        """The one document this command answers with."""
        if self.form is Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump(document, sort_keys=False))
        else:
            import json

            sys.stdout.write(json.dumps(document, indent=2) + "\n")

    def further(self, document: Document) -> None:
        """One of many documents, at once: a line of JSON, or a document of a YAML stream."""
        if self.form is Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump(document, sort_keys=False, explicit_start=True))
        else:
            import json

            sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()

    def one(self, document: Document, name: str, shown: "Callable[[], RenderableType]") -> None:
        """A single thing; `shown` draws it for people."""
        if self.form is Format.NAME:
            sys.stdout.write(f"{name}\n")
        elif self.for_programs:
            self.document(document)
        else:
            self.out.print(shown())

    def many(
        self,
        items: Sequence[Document],
        columns: Sequence[Column],
        name: Callable[[Document], str],
        *,
        beside: Document | None = None,
        none: str,
    ) -> None:
        """A list of things, with `beside` as further keys of its document. What has no name yet is
        left out where only names are asked for."""
        if self.form is Format.NAME:
            sys.stdout.writelines(f"{called}\n" for called in map(name, items) if called)
        elif self.for_programs:
            self.document({**(beside or {}), "items": list(items)})
        elif not items:
            self.err.print(none)
        else:
            out = self.out
            room = out.width if out.is_terminal and self.form is not Format.WIDE else None
            for line in self.table(items, columns, room):
                out.print(line)

    def table(
        self, items: Iterable[Document], columns: Sequence[Column], room: int | None = None
    ) -> "list[Text]":
        """Aligned lines. They are cut off to fit into `room`, and never without one."""
        from rich.cells import cell_len
        from rich.text import Text

        chosen = [column for column in columns if not column.wide or self.form is Format.WIDE]
        rows = [[tame(str(column.cell(item))) for column in chosen] for item in items]
        rows = [[cell or "-" for cell in row] for row in rows]
        head = [column.title for column in chosen]
        widths = [max(map(cell_len, cells)) for cells in zip(head, *rows, strict=True)]
        lines: list[Text] = []
        for index, row in enumerate([head, *rows]):
            line = Text(no_wrap=True, style="bold" if index == 0 else "")
            for cell, width in zip(row, widths, strict=True):
                line.append(cell, style=STYLES.get(cell) if index else None)
                line.append(" " * (width - cell_len(cell) + 3))
            line.rstrip()
            if room is not None:
                line.truncate(room, overflow="ellipsis")
            lines.append(line)
        return lines


def console(stream: TextIO, color: bool | None = None) -> "Console":
    """A console that colours when asked to, or by itself on a terminal unless NO_COLOR is set.

    Colour asked for makes no terminal out of a pipe: what is piped stays lines."""
    from rich.console import Console

    terminal = stream.isatty()
    if color is None:
        asked = terminal or bool(os.environ.get("FORCE_COLOR"))
        color = asked and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        force_terminal=terminal,
        color_system=None if not color else "auto" if terminal else "standard",
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def numbered(count: int, noun: str) -> str:
    """So many of them, as people say it: 1 machine, 2 machines."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def tame(text: str, keep: str = "") -> str:
    """Text of others without what could steer a terminal."""
    return "".join(letter if letter.isprintable() or letter in keep else " " for letter in text)
