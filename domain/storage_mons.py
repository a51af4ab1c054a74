"""What the mons of a Ceph cluster say themselves. The word of its manager may be old: with its mons
frozen a manager went on saying HEALTH_OK, and with the manager dead nobody says anything else."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from domain.frozen import Frozen
from domain.storage import Check, Figure, Light, Manager, Mons, Observation, Source
from domain.storage_answers import SEVERITY, checks, is_full, moment

ORDER = (Light.OFFLINE, *SEVERITY)
"""The worst first."""

SILENT = "MGR_SILENT"
"""A check of ours, until the mons notice by themselves half a minute later."""

FROZEN = "MON_SILENT"
"""Another of ours, for as long as the manager does not notice."""

MISSED = "MGR_DOWN"
"""By which they say so."""


MANAGERS_OWN = tuple(figure for figure in Figure if figure is not Figure.OSDS)
"""What only a manager tells, or what the mons go on repeating that a manager once told them."""


class Word(Frozen):
    """What the mons say."""

    light: Light
    checks: tuple[Check, ...] = ()
    quorum: tuple[str, ...] = ()
    is_managed: bool = True
    """Whether a manager is there, as far as they know."""
    osds: Mapping[int, tuple[bool, bool]] = {}
    """Of each OSD, whether it is up and whether it is in, where they were asked for that."""
    up_changed: datetime | None = None
    in_changed: datetime | None = None
    full: frozenset[int] | None = None
    """The pools that take no more. None: they were not asked."""


def word(status: Mapping[str, Any], dump: Mapping[str, Any] | None = None) -> Word:
    """Out of what `ceph status` says, and `ceph osd dump`. Raises what `domain/storage_answers.py`
    does."""
    health = status["health"]
    more = dump or {}
    return Word(
        light=Light(health["status"]),
        checks=checks({**each, "type": code} for code, each in health.get("checks", {}).items()),
        quorum=tuple(status["quorum_names"]),
        is_managed=bool(status["mgrmap"]["available"]),
        osds={each["osd"]: (bool(each["up"]), bool(each["in"])) for each in more.get("osds", ())},
        up_changed=moment(more.get("last_up_change", 0)),
        in_changed=moment(more.get("last_in_change", 0)),
        full=frozenset(
            each["pool"] for each in more.get("pools", ()) if is_full(each.get("flags_names", ""))
        )
        if "pools" in more
        else None,
    )


def beside(seen: Observation, word: Word) -> Observation:
    """What the manager shows, in the worse of both lights, with the checks of both."""
    light = min(seen.light, word.light, key=ORDER.index)
    return seen.model_copy(
        update={
            "light": light,
            "checks": _all(seen.checks, word.checks),
            "mons": _in_quorum(seen, word),
        }
    )


def _in_quorum(seen: Observation, word: Word) -> Mons:
    """Which mons agree is theirs to say: a manager shows a frozen one for half a minute."""
    mons = [mon.model_copy(update={"in_quorum": mon.name in word.quorum}) for mon in seen.mons.all]
    return seen.mons.model_copy(update={"all": tuple(mons)})


def without(seen: Observation, silent: Collection[str]) -> Observation:
    """The same, with mons out of the quorum that take connections and say nothing. Without a
    majority of the others a manager's word is old, whatever it says."""
    frozen = [mon.name for mon in seen.mons.all if mon.in_quorum and mon.name in silent]
    if not frozen:
        return seen
    mons = [
        mon.model_copy(update={"in_quorum": mon.in_quorum and mon.name not in silent})
        for mon in seen.mons.all
    ]
    said = f"{len(frozen)}/{len(mons)} mons take connections and say nothing: {', '.join(frozen)}"
    check = Check(code=FROZEN, light=Light.WARN, says=said)
    left = sum(mon.in_quorum for mon in mons)
    return seen.model_copy(
        update={
            "mons": seen.mons.model_copy(update={"all": tuple(mons)}),
            "live": seen.live and left > len(mons) // 2,
            "light": min(seen.light, Light.WARN, key=ORDER.index),
            "checks": _all(seen.checks, (check,)),
        }
    )


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
    manager = last.manager if word.is_managed else Manager(since=last.manager.since)
    pools = last.pools
    if word.full is not None:
        pools = tuple(it.model_copy(update={"full": it.id in word.full}) for it in pools)
    osds: dict[str, object] = {"all": tuple(known)}
    osds |= {"up_changed": word.up_changed} if word.up_changed else {}
    osds |= {"in_changed": word.in_changed} if word.in_changed else {}
    return last.model_copy(
        update={
            "at": at,
            "source": Source.MONS,
            "live": True,
            "light": min(word.light, Light.WARN, key=ORDER.index),
            "checks": _all(word.checks, more),
            "manager": manager.model_copy(update={"silent": True}),
            "mons": _in_quorum(last, word),
            "osds": last.osds.model_copy(update=osds),
            "pools": pools,
            "ages": {figure: last.seen_at(figure) for figure in _unknown(word)},
        }
    )


def _unknown(word: Word) -> tuple[Figure, ...]:
    """What the mons did not say."""
    return (*MANAGERS_OWN, *(() if word.osds else (Figure.OSDS,)))


def _all(first: tuple[Check, ...], others: tuple[Check, ...]) -> tuple[Check, ...]:
    """Each once, the worst first."""
    known = {check.code for check in first}
    found = (*first, *(check for check in others if check.code not in known))
    return tuple(sorted(found, key=lambda check: (ORDER.index(check.light), check.code)))
