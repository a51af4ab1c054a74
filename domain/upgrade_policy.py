"""When it is looked for newer versions of Ceph, and what is done about one.

A schedule is what cron takes: five fields, or `@daily` and its like, with a time zone before it
perhaps. It is given to Temporal, which reads some of them otherwise than cron does: those are put
so that both mean the same, or refused."""

import re
from enum import StrEnum
from itertools import product
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

from pydantic import model_validator

from domain.errors import Invalid
from domain.frozen import Frozen


class Mode(StrEnum):
    """What is done about a newer version.

    DISABLED  nothing: it is not even looked for
    NOTIFY    it is told, and nothing is changed
    UPGRADE   Ceph is upgraded to the newest of its own major version, once it is fit for it
    """

    DISABLED = "disabled"
    NOTIFY = "notify"
    UPGRADE = "upgrade"


class Timetable(NamedTuple):
    """A schedule as Temporal takes it."""

    crons: tuple[str, ...]
    """Any of them."""
    zone: str


FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NAMES = {
    "month": {name: number for number, name in enumerate(MONTHS, start=1)},
    "weekday": {name: number for number, name in enumerate(WEEKDAYS)},
}
LONGEST = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
"""How many days each month may have."""

ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
WORDS = re.compile(
    r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every (\d+h)?(\d+m)?(\d+s)?(?<! ))"
)
PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


class UpgradePolicy(Frozen):
    mode: Mode = Mode.NOTIFY
    schedule: str = "0 0 * * *"
    time_zone: str = "UTC"
    """Of a schedule that names none."""

    @model_validator(mode="after")
    def _fires(self) -> Self:
        """In every mode: one that is switched on later is right from the start."""
        try:
            timetable(self.schedule, self.time_zone)
        except Invalid as error:
            raise ValueError(error.message) from error
        return self

    @property
    def timetable(self) -> Timetable:
        return timetable(self.schedule, self.time_zone)


def timetable(schedule: str, zone: str = "UTC") -> Timetable:
    """What a schedule means. Invalid if it means nothing, or never fires."""
    said = " ".join(schedule.split())
    if found := ZONE.fullmatch(said):
        zone, said = found.groups()
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:
        raise _wrong(schedule, f"{zone} is no time zone") from error
    if said.startswith("@"):
        if not WORDS.fullmatch(said):
            raise _wrong(
                schedule, f"{said} is none of @daily, @weekly, @every 1h30m and their like"
            )
        return Timetable((said,), zone)
    fields = said.replace("?", "*").split(" ")
    if len(fields) != len(FIELDS):
        raise _wrong(schedule, "it has to have five fields")
    minute, hour, day, month, weekday = fields
    values = [_values(schedule, each, *of) for each, of in zip(fields, FIELDS, strict=True)]
    if weekday == "*" and not any(d <= LONGEST[m] for d, m in product(values[2], values[3])):
        raise _wrong(schedule, "it never fires")
    if "*" in (day, weekday):
        return Timetable((" ".join(fields),), zone)
    # cron means either, Temporal both
    either = ((day, "*"), ("*", weekday))
    return Timetable(tuple(f"{minute} {hour} {d} {month} {w}" for d, w in either), zone)


def _values(schedule: str, text: str, what: str, low: int, high: int) -> set[int]:
    """Whatever a field stands for."""
    found: set[int] = set()
    for part in text.lower().split(","):
        parts = PART.fullmatch(part)
        if parts is None:
            raise _wrong(schedule, f"{text} is no {what}")
        first, last, step = parts.groups()
        begin = low if first == "*" else _number(schedule, first, what)
        end = high if first == "*" or (step and not last) else begin
        end = _number(schedule, last, what) if last else end
        if not (low <= begin <= end <= high) or step == "0":
            raise _wrong(schedule, f"{text} is no {what}: it is from {low} to {high}")
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def _number(schedule: str, text: str, what: str) -> int:
    names = NAMES.get(what, {})
    if text in names:
        return names[text]
    if not text.isdecimal():
        raise _wrong(schedule, f"{text} is no {what}")
    return int(text)


def _wrong(schedule: str, why: str) -> Invalid:
    return Invalid(f"{schedule[:64]!r} is no schedule: {why}", subject=schedule[:64])
