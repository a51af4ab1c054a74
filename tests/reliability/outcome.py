"""What a drill found: figures, and everything that was not as promised."""

import json
import sys
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    drill: str
    figures: dict[str, Any]
    broken: list[str]
    """Empty if every promise was kept."""

    @property
    def line(self) -> str:
        return json.dumps({"drill": self.drill, **self.figures, "broken": self.broken})


def say(text: str) -> None:
    """Progress is for people; figures alone go to standard output."""
    print(text, file=sys.stderr, flush=True)
