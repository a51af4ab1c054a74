"""What a cluster's API has shown so far, in order: where resource versions and watches come from.

Much of what the API shows nobody writes: a node becomes Ready because time has passed. So objects
get their versions when they are looked at and are not as they were. Versions start at the time of
day, and so grow across a restart of the site; what was seen before it is expired."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sim.kubernetes.errors import Body, expired

_REMEMBERED = 2000


@dataclass(frozen=True)
class Seen:
    body: Body
    created: int
    changed: int


@dataclass(frozen=True)
class Event:
    type: str
    body: Body
    version: int


class History:
    """Of one cluster, whichever of its servers is asked."""

    def __init__(self, start: int) -> None:
        self.version = start
        self._oldest = start
        self._seen: dict[str, dict[str, Seen]] = {}
        self._gone: deque[tuple[str, Event]] = deque()

    def see(self, resource: str, key: str, body: Body | None) -> Body | None:
        """Look at one object, or at its absence. The object with its version."""
        shelf = self._seen.setdefault(resource, {})
        known = shelf.get(key)
        if body is None:
            if known is not None:
                del shelf[key]
                self.version += 1
                self._bury(resource, Event("DELETED", known.body, self.version))
            return None
        if known is None or known.body != body:
            self.version += 1
            created = self.version if known is None else known.created
            known = shelf[key] = Seen(body, created, self.version)
        return _versioned(known.body, known.changed)

    def see_all(self, resource: str, bodies: Mapping[str, Body]) -> list[Body]:
        """Look at every object of a kind, sorted by key."""
        for key in self._seen.get(resource, {}).keys() - bodies.keys():
            self.see(resource, key, None)
        shown = [self.see(resource, key, bodies[key]) for key in sorted(bodies)]
        return [body for body in shown if body is not None]

    def since(self, resource: str, version: int) -> Iterator[Event]:
        """What has been seen to happen to a kind's objects after `version`, in order. An object
        that changed more than once is there once, as it is now."""
        self.check(version)
        events = [
            event for known, event in self._gone if known == resource and event.version > version
        ]
        for seen in self._seen.get(resource, {}).values():
            if seen.changed > version:
                kind = "ADDED" if seen.created > version else "MODIFIED"
                events.append(Event(kind, seen.body, seen.changed))
        for event in sorted(events, key=lambda event: event.version):
            yield Event(event.type, _versioned(event.body, event.version), event.version)

    def check(self, version: int) -> None:
        """Refuse to go on from a version whose successors are forgotten."""
        if version < self._oldest:
            raise expired(version, self._oldest)

    def _bury(self, resource: str, event: Event) -> None:
        self._gone.append((resource, event))
        if len(self._gone) > _REMEMBERED:
            self._oldest = self._gone.popleft()[1].version


def _versioned(body: Body, version: int) -> Body:
    return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}}
