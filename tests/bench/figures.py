"""Figures: measured several times, told as median and spread, judged by their targets."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Target:
    """What a figure is to be at most, or at least."""

    most: float | None = None
    least: float | None = None

    def met(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (
            self.least is None or value >= self.least
        )

    def __str__(self) -> str:
        return f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"


@dataclass(frozen=True)
class Figure:
    name: str
    unit: str
    runs: tuple[float, ...]
    target: Target | None = None

    @property
    def value(self) -> float:
        return median(self.runs)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.target.met(self.value) else "MISSED"

    def written(self) -> dict[str, Any]:
        """As it stands in the JSON file."""
        told = {
            **asdict(self),
            "value": self.value,
            "least": min(self.runs),
            "most": max(self.runs),
        }
        told["target"] = str(self.target) if self.target else None
        return {**told, "verdict": self.verdict}


def figure(name: str, unit: str, *runs: float, target: Target | None = None) -> Figure:
    return Figure(name, unit, runs, target)


def ratio(
    name: str, ours: Sequence[float], theirs: Sequence[float], target: Target | None = None
) -> Figure:
    """Run by run, since the two of a pair were measured one right after the other."""
    pairs = zip(ours, theirs, strict=True)
    return Figure(name, "x", tuple(one / other for one, other in pairs), target)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all are not greater than."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(title: str, figures: Sequence[Figure]) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("figure", "median", "least", "most", "unit", "target", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right")
    for each in figures:
        spread = (shown(min(each.runs)), shown(max(each.runs))) if len(each.runs) > 1 else ("", "")
        target = str(each.target) if each.target else ""
        table.add_row(each.name, shown(each.value), *spread, each.unit, target, each.verdict)
    Console(width=100).print(table, "")


def shown(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def load() -> str:
    """How busy the machine was of late: one, five and fifteen minutes."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())
