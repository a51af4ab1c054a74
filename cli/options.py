"""What several commands take, described once."""

import re
from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from cli import completing
from cli.complaints import Code, Complaint

Cluster: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The cluster's name.", autocompletion=completing.cluster_names
    ),
]
OperationId: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The operation's id, with or without operations/ in front.",
        autocompletion=completing.operation_ids,
    ),
]
Wait: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--wait", help="Follow the operation to its end: exit 0 done, 1 not, 124 out of time."
    ),
]
Timeout: TypeAlias = Annotated[
    str,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="How long to follow, such as 90s, 30m or 1h30m. The work itself goes on.",
    ),
]
Sizes: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="POOL=COUNT", help="How many each is to have.")
]
Plan: TypeAlias = Annotated[
    bool,
    typer.Option("--plan", help="Only say what would be done, to which machines; change nothing."),
]
SiteFile: TypeAlias = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="The file; - is standard input.")
]
SitePlan: TypeAlias = Annotated[
    bool, typer.Option("--plan", help="Only say what would be done; change nothing.")
]
RequestId: TypeAlias = Annotated[
    str,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="A key of your own: asking again under it changes nothing and answers the same.",
    ),
]


class StageName(StrEnum):
    """The stages of an operation, as they are typed."""

    REQUESTED = "requested"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class PolicyName(StrEnum):
    """What may be done about nodes that do not work, as it is typed."""

    OFF = "off"
    PROPOSE = "propose"
    AUTOMATIC = "automatic"


_DURATION = re.compile(r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s?)?")


def seconds(duration: str, option: str = "--timeout") -> float | None:
    """What a duration comes to, or None for no limit."""
    if duration in ("", "0"):
        return None
    parts = _DURATION.fullmatch(duration)
    if parts is None:
        raise Complaint(
            f"{option} {duration!r} is no duration",
            Code.USAGE,
            do="write it such as 90s, 30m or 1h30m; 0 is for ever",
        )
    hours, minutes, rest = (int(part or 0) for part in parts.group("h", "m", "s"))
    return float(hours * 3600 + minutes * 60 + rest) or None
