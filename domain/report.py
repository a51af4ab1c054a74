"""What a node tells of its pods, piece by piece and in order."""

from domain.frozen import Frozen
from domain.happening import Happening
from domain.logline import Chunk
from domain.pod import Image, Pod


class LogPiece(Frozen):
    pod: str
    app: str
    chunk: Chunk


class ImageGone(Frozen):
    id: str


Told = Pod | Image | ImageGone | Happening | LogPiece


class Item(Frozen):
    number: int
    """Growing within an epoch, and never used twice."""
    what: Told


class Report(Frozen):
    node: str
    epoch: str
    """Drawn when the agent's memory was made."""
    items: tuple[Item, ...]
