"""What happened to machines, as MAAS tells it: newest first, in pages."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from sim.ledger import Ledger, Record
from sim.maas.call import Call, Refusal
from sim.maas.constraints import FILTERS, chosen
from sim.maas.machine import Machine
from sim.maas.view import API
from sim.pace import Clock

KEPT = 5000
MOST, USUAL = 1000, 100
LEVELS = {"AUDIT": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class Event(Record):
    """One line of a machine's story."""

    number: int
    time: float
    system_id: str
    username: str
    level: str
    type: str
    description: str


class Events:
    """The newest events of all machines. Older ones are forgotten."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock
        self.all = sorted(
            ledger.recall("maas-event", Event).values(), key=lambda event: event.number
        )

    def add(self, machine: Machine, type_: str, description: str = "", level: str = "INFO") -> None:
        event = Event(
            number=self.all[-1].number + 1 if self.all else 1,
            time=self._clock.now(),
            system_id=machine.system_id,
            username=machine.owner,
            level=level,
            type=type_,
            description=description,
        )
        self._ledger.keep("maas-event", str(event.number), event)
        self.all.append(event)
        if len(self.all) > KEPT:
            self._ledger.drop("maas-event", str(self.all.pop(0).number))

    def query(self, call: Call, machines: dict[str, Machine]) -> dict[str, Any]:
        """One page. `after` asks for what came next, and is still shown newest first."""
        limit, level, before, after = _paging(call)
        named = set()
        for machine in chosen(machines.values(), call.parameters, FILTERS):
            named.add(machine.system_id)
        owner = call.one("owner")
        found = [
            event
            for event in self.all
            if event.system_id in named
            and LEVELS[event.level] >= LEVELS[level]
            and (before is None or event.number < before)
            and (after is None or event.number > after)
            and (not owner or event.username == owner)
        ]
        found = found[:limit] if after is not None else found[-limit:]
        page = found[::-1]
        newest = page[0].number if page else (before or 1) - 1
        oldest = page[-1].number if page else None if after is None else after + 1
        return {
            "count": len(page),
            "events": [_shown(event, machines[event.system_id]) for event in page],
            "next_uri": _uri(call, after=newest),
            "prev_uri": None if oldest is None else _uri(call, before=oldest),
        }


def _paging(call: Call) -> tuple[int, str, int | None, int | None]:
    limit, level = _whole(call, "limit"), call.one("level", "INFO")
    if limit is not None and limit > MOST:
        raise Refusal(400, f"Requested number of events {limit} is greater than limit: {MOST}")
    if level not in LEVELS:
        raise Refusal(400, f"Unrecognised log level: {level}")
    before, after = _whole(call, "before"), _whole(call, "after")
    if before is not None and after is not None:
        raise Refusal(
            400, "There is undetermined behaviour when both `after` and `before` are specified."
        )
    return USUAL if limit is None else max(limit, 1), level, before, after


def _whole(call: Call, name: str) -> int | None:
    text = call.one(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise Refusal(400, {name: ["Please enter an integer value"]}) from None


def _uri(call: Call, **place: int) -> str:
    kept = {
        name: values for name, values in call.parameters.items() if name not in ("before", "after")
    }
    return f"{API}events/?{urlencode({'op': 'query', **kept, **place}, doseq=True)}"


def _shown(event: Event, machine: Machine) -> dict[str, Any]:
    return {
        "username": event.username,
        "node": event.system_id,
        "hostname": machine.hostname,
        "id": event.number,
        "level": event.level,
        "created": datetime.fromtimestamp(event.time, UTC).strftime("%a, %d %b. %Y %H:%M:%S"),
        "type": event.type,
        "description": event.description,
    }
