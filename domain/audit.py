"""What is written down of everybody who changes something, and how each line holds the next."""

import hashlib
from datetime import datetime

from domain.frozen import Frozen


class Deed(Frozen):
    """That somebody changed something, or tried to."""

    time: datetime
    user: str
    source: str = ""
    """Where they were."""
    method: str
    subject: str = ""
    """What it was about, as far as the request names it."""
    command: str = ""
    """What it had run, if it had anything run."""
    code: str = ""
    """What it was answered with. Empty: it had begun by then, and no more is known."""
    reason: str = ""
    """Why, if it was refused."""
    operation: str = ""
    request_id: str = ""
    began: int = 0
    """The line that says that it began. 0: it was refused before, or signed somebody in."""
    count: int = 1
    """How many calls the line stands for: those that repeat are counted."""


class Line(Frozen):
    """A deed in the trail."""

    number: int
    deed: Deed


class Anchor(Frozen):
    """A line that was seen earlier, and is to be there for ever."""

    number: int
    chain: str

    def __str__(self) -> str:
        return f"{self.number}:{self.chain}"


PRUNED = "store/prune-audit"
"""The method of the line that says that older ones were removed, up to the anchor it is about."""


class Verdict(Frozen):
    """Whether the trail is whole."""

    lines: int
    broken: int = 0
    """The number of the first line that does not follow. 0: all do."""
    chain: str = ""
    lost: int = 0
    """The number of the line that was seen earlier, if it is not there any more as it was: the
    trail was cut off before it, or written anew, or the line was removed for its age. 0: it is."""
    first: int = 1
    """The number of the first line that is kept: older ones were removed."""


def chained(before: str, number: int, line: str) -> str:
    """What a line is held by: nobody changes one, or leaves one out, without all that follow."""
    return hashlib.sha256(f"{before}\n{number}\n{line}".encode()).hexdigest()
