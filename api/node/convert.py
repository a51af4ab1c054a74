"""What the reports of nodes mean."""

from collections.abc import Callable

from pydantic import ValidationError

from domain.errors import Invalid
from domain.happening import Happening
from domain.logline import Chunk
from domain.pod import Image, Pod
from domain.report import ImageGone, Item, LogPiece, Report, Told
from protos.gen.agent import node_pb2 as pb

NODE_LENGTH, EPOCH_LENGTH = 253, 36
"""What is longer is no name of a node, and no UUID."""

ITEMS = 1000
"""The most that is taken at once."""


def report(request: pb.ReportRequest) -> Report:
    if not 0 < len(request.node) <= NODE_LENGTH or not 0 < len(request.epoch) <= EPOCH_LENGTH:
        raise _unreadable("it does not say whose it is")
    if len(request.items) > ITEMS:
        raise _unreadable(f"it has {len(request.items)} items, and {ITEMS} are the most")
    try:
        items = tuple(Item(number=item.number, what=_told(item)) for item in request.items)
    except ValidationError as error:
        raise _unreadable(f"{error.error_count()} fields of an item are wrong") from error
    return Report(node=request.node, epoch=request.epoch, items=items)


def _told(item: pb.Item) -> Told:
    kind = item.WhichOneof("what")
    if kind is None:
        raise _unreadable(f"item {item.number} says nothing")
    return READ[kind](item)


def _log(item: pb.Item) -> LogPiece:
    chunk = Chunk(offset=item.log.offset, lines=item.log.lines)
    return LogPiece(pod=item.log.pod, app=item.log.app, chunk=chunk)


READ: dict[str, Callable[[pb.Item], Told]] = {
    "pod": lambda item: Pod.model_validate_json(item.pod),
    "image": lambda item: Image.model_validate_json(item.image),
    "image_gone": lambda item: ImageGone(id=item.image_gone),
    "happening": lambda item: Happening.model_validate_json(item.happening),
    "log": _log,
}


def _unreadable(why: str) -> Invalid:
    return Invalid(
        f"the report cannot be read: {why}",
        reason="REPORT_UNREADABLE",
        do="bring the agent to the release of the control plane",
    )
