"""Five figures that say how a Ceph cluster is, each from 0 to 100, where 100 is best."""

import math
import re
from collections.abc import Sequence
from enum import StrEnum

from domain.frozen import Frozen
from domain.reliability import ALL_PARTS, Score
from domain.storage import Capacity, Check, Figure, Light, Observation
from domain.storage_resources import Standing

BEST = 100.0

HEALTH: dict[Light, float] = {
    Light.OK: BEST,
    Light.WARN: 50.0,
    Light.ERR: 0.0,
    Light.OFFLINE: 0.0,
}


class Stability(StrEnum):
    """How the stability is reckoned."""

    CHECKS = "checks"
    """Every failing check is as bad as another."""
    WEIGHTED = "weighted"
    """Errors are worse than warnings, crashes are counted, and what was muted is not."""


PER_CHECK = 10.0
"""What each failing check takes from the stability."""

PER_LIGHT: dict[Light, float] = {Light.ERR: 25.0, Light.WARN: 10.0}
"""The same, where checks are weighed."""

PER_CRASH, MOST_BY_CRASHES = 5.0, 30.0
CRASHED = re.compile(r"(\d+) (?:daemons|mgr modules) have recently crashed")

WEIGHT: dict[Score, float] = {Score.OK: BEST, Score.DEGRADED: 50.0, Score.NONE: 0.0}

MOST_WITHOUT_SPARE = 50.0
"""However well the rest is, one part with nothing left to lose is half of the truth."""


class Radar(Frozen):
    """To one decimal. None: nobody can tell."""

    health: float
    nodes: float | None
    capacity: float | None
    stability: float
    reliability: float | None


def radar(
    seen: Observation,
    light: Light,
    nodes: Sequence[Standing],
    parts: Sequence[Score],
    how: Stability = Stability.CHECKS,
    unknown: frozenset[Figure] = frozenset(),
) -> Radar:
    """The figures for what was seen, in the light that it is shown in, with its nodes and parts,
    and what of all that is unknown."""
    ready = sum(each is Standing.READY for each in nodes)
    share = round(BEST * ready / len(nodes), 1) if nodes else 0.0
    return Radar(
        health=HEALTH[light],
        nodes=None if Figure.HOSTS in unknown else share,
        capacity=None if Figure.CAPACITY in unknown else capacity(seen.capacity),
        stability=STABILITY[how](seen.checks),
        reliability=None if unknown.intersection(ALL_PARTS) else round(reliable(parts), 1),
    )


def capacity(of: Capacity) -> float:
    """The free share of the raw space, rounded down to a tenth."""
    return math.floor((1 - of.used_ratio) * 1000) / 10 if of.total else 0.0


def stability(checks: Sequence[Check]) -> float:
    return max(0.0, BEST - PER_CHECK * len(checks))


def weighed(checks: Sequence[Check]) -> float:
    """Crashes besides the check that tells of them."""
    counted = [check for check in checks if not check.muted]
    crashes = PER_CRASH * sum(_crashes(check) for check in counted)
    taken = sum(PER_LIGHT.get(check.light, 0.0) for check in counted)
    return max(0.0, BEST - taken - min(crashes, MOST_BY_CRASHES))


def _crashes(told: Check) -> int:
    """How many that check tells of."""
    found = CRASHED.match(told.says)
    return int(found[1]) if found else 0


STABILITY = {Stability.CHECKS: stability, Stability.WEIGHTED: weighed}


def reliable(scores: Sequence[Score]) -> float:
    """The mean of all parts."""
    if not scores:
        return 0.0
    mean = sum(WEIGHT[score] for score in scores) / len(scores)
    return min(mean, MOST_WITHOUT_SPARE) if Score.NONE in scores else mean
