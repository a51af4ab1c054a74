"""Watches: what happens to the objects of a kind, line by line, for as long as anyone listens."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from domain.frozen import Frozen
from sim.kubernetes.errors import Body, malformed
from sim.kubernetes.kinds import Kind
from sim.kubernetes.objects import Objects
from sim.kubernetes.selectors import Test

Shown: TypeAlias = Callable[[Body], Body]
"""How an object leaves: as it is, or as a table of one row."""

_LOOK_SECONDS = 0.2
_BOOKMARK_SECONDS = 60.0
_LONGEST_SECONDS = 3600.0


class Asked(Frozen):
    """What a watcher says it wants."""

    version: int | None = None
    """What it has seen already. None: nothing, so it is shown all there is first."""
    initial: bool = False
    """Whether it wants to be told where the present ends and the news begin."""
    bookmarks: bool = False
    seconds: float = _LONGEST_SECONDS

    @classmethod
    def of(cls, query: dict[str, str]) -> "Asked":
        version, initial = query.get("resourceVersion", ""), query.get("sendInitialEvents")
        try:
            return cls(
                version=None if version in ("", "0") or initial == "true" else int(version),
                initial=initial == "true",
                bookmarks=query.get("allowWatchBookmarks") in ("true", "1"),
                seconds=float(query.get("timeoutSeconds", _LONGEST_SECONDS)),
            )
        except ValueError as error:
            raise malformed(f"invalid resource version: {version!r}") from error


async def watched(
    objects: Objects,
    kind: Kind,
    asked: Asked,
    wanted: Test,
    shown: Shown,
    alive: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """The lines of a watch. It ends when its time is up or the cluster cannot answer any more.

    A watcher that asks for what is forgotten gets a StatusError instead of a line. Readiness
    changes by itself, so somebody has to look: we do, several times a second."""
    history, loop = objects.history, asyncio.get_running_loop()
    until, bookmark = loop.time() + asked.seconds, loop.time() + _BOOKMARK_SECONDS
    known: set[str] = set()
    for body in filter(wanted, objects.all(kind)):
        if asked.version is None:
            yield event_line("ADDED", shown(body))
        if asked.version is None or int(body["metadata"]["resourceVersion"]) <= asked.version:
            known.add(body["metadata"]["uid"])
    version = history.version if asked.version is None else asked.version
    if asked.initial:
        yield _bookmark(kind, version, {"k8s.io/initial-events-end": "true"})
    while loop.time() < until and alive():
        objects.all(kind)
        for event in history.since(kind.resource, version):
            version, uid = event.version, event.body["metadata"]["uid"]
            fits = wanted(event.body)
            if event.type != "DELETED" and fits:
                yield event_line("MODIFIED" if uid in known else event.type, shown(event.body))
                known.add(uid)
            elif uid in known or (fits and event.type == "DELETED"):
                known.discard(uid)
                yield event_line("DELETED", shown(event.body))
        if asked.bookmarks and loop.time() >= bookmark:
            bookmark = loop.time() + _BOOKMARK_SECONDS
            yield _bookmark(kind, version, {})
        await asyncio.sleep(_LOOK_SECONDS)


def event_line(kind: str, body: Body) -> bytes:
    """One event of a watch as it goes over the wire."""
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def _bookmark(kind: Kind, version: int, annotations: dict[str, str]) -> bytes:
    metadata: Body = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    return event_line(
        "BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    )
