"""What the mons of a Ceph cluster say themselves. The word of its manager may be old: with its mons
frozen a manager went on saying HEALTH_OK, and with the manager dead nobody says anything else."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.frozen import Frozen
from domain.storage import Check, Light, Manager, Observation, Source
from domain.storage_answers import SEVERITY, checks

ORDER = (Light.OFFLINE, *SEVERITY)
"""The worst first."""

SILENT = "MGR_SILENT"
"""A check of ours, until the mons notice by themselves half a minute later."""

MISSED = "MGR_DOWN"
"""By which they say so."""


class Word(Frozen):
    """What the mons say."""

    light: Light
    checks: tuple[Check, ...] = ()
    quorum: tuple[str, ...] = ()
    is_managed: bool = True
    """Whether a manager is there, as far as they know."""
    osds: Mapping[int, tuple[bool, bool]] = {}
    """Of each OSD, whether it is up and whether it is in, where they were asked for that."""


def word(status: Mapping[str, Any], dump: Mapping[str, Any] | None = None) -> Word:
    """Out of what `ceph status` says, and `ceph osd dump`. Raises what `domain/storage_answers.py`
    does."""
    health = status["health"]
    return Word(
        light=Light(health["status"]),
        checks=checks({**each, "type": code} for code, each in health.get("checks", {}).items()),
        quorum=tuple(status["quorum_names"]),
        is_managed=bool(status["mgrmap"]["available"]),
        osds={
            each["osd"]: (bool(each["up"]), bool(each["in"]))
            for each in (dump or {"osds": ()})["osds"]
        },
    )


def beside(seen: Observation, word: Word) -> Observation:
    """What the manager shows, in the worse of both lights, with the checks of both."""
    light = min(seen.light, word.light, key=ORDER.index)
    return seen.model_copy(update={"light": light, "checks": _all(seen.checks, word.checks)})


def instead(last: Observation, word: Word, at: datetime) -> Observation:
    """The mons' word alone, while the manager gives none. What only a manager knows is what it last
    said, so this is never a green light."""
    silent = Check(code=SILENT, light=Light.WARN, says="the manager does not answer")
    more = () if any(check.code == MISSED for check in word.checks) else (silent,)
    known = [
        osd.model_copy(update=dict(zip(("up", "inside"), word.osds[osd.id], strict=True)))
        if osd.id in word.osds
        else osd
        for osd in last.osds.all
    ]
    mons = [mon.model_copy(update={"in_quorum": mon.name in word.quorum}) for mon in last.mons.all]
    manager = last.manager if word.is_managed else Manager(since=last.manager.since)
    return last.model_copy(
        update={
            "at": at,
            "source": Source.MONS,
            "live": True,
            "light": min(word.light, Light.WARN, key=ORDER.index),
            "checks": _all(word.checks, more),
            "manager": manager,
            "mons": last.mons.model_copy(update={"all": tuple(mons)}),
            "osds": last.osds.model_copy(update={"all": tuple(known)}),
        }
    )


def _all(first: tuple[Check, ...], others: tuple[Check, ...]) -> tuple[Check, ...]:
    """Each once, the worst first."""
    known = {check.code for check in first}
    found = (*first, *(check for check in others if check.code not in known))
    return tuple(sorted(found, key=lambda check: (ORDER.index(check.light), check.code)))
