"""Recordings of real programs, for tests that hold ours against them."""

import json
from functools import cache
from pathlib import Path
from typing import Literal

from domain.frozen import Frozen

KUBEADM = Path(__file__).parent / "data" / "metal" / "kubeadm-1.32.jsonl"


class Recording(Frozen):
    """What a program was asked, what it said and left, and how it ended."""

    case: str
    machine: str
    argv: str
    note: str = ""
    said: tuple[tuple[Literal["out", "err"], str], ...] = ()
    exit: int
    seconds: float
    files: tuple[str, ...] | None = None

    @property
    def output(self) -> str:
        """What a job's file of output has: both streams, in order."""
        return "\n".join(text for _, text in self.said)

    @property
    def out(self) -> str:
        return "\n".join(text for stream, text in self.said if stream == "out")

    @property
    def err(self) -> str:
        return "\n".join(text for stream, text in self.said if stream == "err")

    @property
    def made(self) -> set[str]:
        """The files and folders that are new."""
        return {line.split()[-1] for line in self.files or () if line.startswith("+ ")}


@cache
def recordings() -> dict[str, Recording]:
    """Every case of kubeadm and its surroundings, by name."""
    found = [
        Recording.model_validate(json.loads(line)) for line in KUBEADM.read_text().splitlines()
    ]
    return {each.case: each for each in found}
