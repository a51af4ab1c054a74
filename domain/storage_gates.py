"""What has to be so before a Ceph cluster is touched, and how far it is afterwards.

Decided from placement groups and not from the colour of a light: with every one of them out of
reach, Ceph may say HEALTH_WARN for minutes, and HEALTH_OK for seconds. Each refusal has its reason
and its figures, and all are told at once."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from domain.ceph_releases import major, too_far
from domain.errors import Conflict, NotFound
from domain.releases import Version
from domain.storage import Check, Light, Observation, Osd, Pool, count
from domain.storage_plan import Marking, OsdMark, Target

FULLEST = 0.85
"""Ceph's own nearfull: beyond it OSDs that are left might fill up while data moves to them."""

FORBIDDING = frozenset({"OSD_NEARFULL", "OSD_BACKFILLFULL", "OSD_FULL"})
"""Checks that are warnings only, and during which no data is to be moved."""

BEARABLE = frozenset(
    {
        *("OSD_SLOW_PING_TIME_BACK", "OSD_SLOW_PING_TIME_FRONT", "POOL_NEARFULL"),
        *("SLOW_OPS", "BLUESTORE_SLOW_OP_ALERT"),
    }
)
"""Checks that latch, or that say nothing about whether daemons may be restarted."""

CRASHES = frozenset({"RECENT_CRASH", "RECENT_MGR_MODULE_CRASH"})
"""Of the last two weeks, unless somebody archives them: most of them are long over."""

CRASH_COUNTS = timedelta(hours=24)

UPGRADE = "UPGRADE_"
"""With this the checks begin by which the orchestrator says why it goes on no further: it finds no
image, or a daemon does not come back."""

FEWEST_MONS, FEWEST_MANAGERS = 3, 2

ORCHESTRATOR = "cephadm"
"""The module of the manager by which it replaces its daemons. That of Rook does not: its operator
puts back what is changed behind its back."""

FULLEST_BEFORE_UPGRADE = 0.75

RESTING = frozenset({"active", "clean", "scrubbing", "deep"})
"""What a placement group may say of itself while all is well."""


def refuse(seen: Observation, marking: Marking, *, known: bool = True) -> None:
    """Conflict with all reasons, if these OSDs may not be taken out, or in, now. `known`: whether
    there is news of the cluster."""
    found = {osd.id: osd for osd in seen.osds.all}
    for mark in marking.marks:
        if mark.id not in found:
            raise NotFound(
                f"there is no {mark.named} in Ceph",
                subject=mark.named,
                reason="OSD_NOT_FOUND",
                do="windlass storage osd list shows the OSDs there are",
            )
    reasons = [*_blind(seen, known=known), *_for(seen, marking, found.values())]
    if reasons:
        word = marking.marks[0].word
        named = ", ".join(mark.named for mark in marking.marks)
        raise Conflict(
            f"{named} may not be taken {word} now: {'; '.join(reasons)}",
            subject=marking.cluster,
            reason="STORAGE_NOT_SAFE",
            do="windlass storage status shows how Ceph is; ask again once it is well",
            facts={"osds": named},
        )


def _blind(seen: Observation, *, known: bool) -> list[str]:
    return [] if known and seen.live else ["there is no news of how Ceph is"]


def _for(seen: Observation, marking: Marking, osds: Iterable[Osd]) -> list[str]:
    if marking.inside:
        dead = [f"osd.{osd.id}" for osd in osds if osd.id in marking.ids and not osd.up]
        return [f"{', '.join(dead)} is down"] if dead else []
    return [*_unwell(seen, marking.ids), *_short(seen, marking.ids), *_full(seen, marking.ids)]


def _unwell(seen: Observation, leaving: Collection[int]) -> list[str]:
    """Copies that are missing are a reason to wait, unless it is the dead among the leaving that
    they are missing from: those are taken out to have the copies made elsewhere."""
    dead = any(osd.id in leaving and osd.inside and not osd.up for osd in seen.osds.all)
    unrest = 0 if dead else restless(seen)
    counted = (
        (seen.inactive, "serve nobody"),
        (unrest, f"of {groups(seen)} are not active and clean"),
    )
    return [
        *(f"{number} placement groups {what}" for number, what in counted if number),
        *(
            said(check)
            for check in seen.checks
            if check.light is Light.ERR or check.code in FORBIDDING
        ),
    ]


def _short(seen: Observation, leaving: Collection[int]) -> list[str]:
    """Pools that would not find a place for each copy any more."""
    staying = [osd for osd in _serving(seen) if osd.id not in leaving]
    reasons = []
    for pool in seen.pools:
        places, what = _places(pool, staying)
        if places < pool.size:
            reasons.append(
                f"the pool {pool.name} keeps {pool.size} copies on different {what}, and "
                f"{places} would be left"
            )
    return reasons


def _places(pool: Pool, osds: Collection[Osd]) -> tuple[int, str]:
    if pool.domain == "host":
        return len({osd.host for osd in osds}), "hosts"
    return len(osds), "OSDs"


def _full(seen: Observation, leaving: Collection[int]) -> list[str]:
    """How full the others would be, as if all were of one size: Ceph does not say more at once."""
    serving = _serving(seen)
    left = [osd for osd in serving if osd.id not in leaving]
    total = seen.capacity.total * len(left) / len(serving) if serving else 0.0
    ratio = seen.capacity.used / total if total else 0.0
    return [f"the OSDs left would be {ratio:.0%} full"] if ratio >= FULLEST else []


def _serving(seen: Observation) -> list[Osd]:
    return [osd for osd in seen.osds.all if osd.up and osd.inside]


def groups(seen: Observation) -> int:
    return sum(seen.states.values())


def restless(seen: Observation) -> int:
    """Placement groups that are not active and clean, whatever else they do besides scrubbing."""
    return count(
        seen.states, lambda words: not {"active", "clean"} <= words or not words <= RESTING
    )


def is_marked(seen: Observation, mark: OsdMark) -> bool:
    """Whether the OSD is as the mark says. NotFound if there is none: Ceph itself says yes to
    marks of what it does not have."""
    for osd in seen.osds.all:
        if osd.id == mark.id:
            return osd.inside is mark.inside
    raise NotFound(f"there is no {mark.named} in Ceph", subject=mark.named, reason="OSD_NOT_FOUND")


def unsettled(seen: Observation, mark: OsdMark, *, safe: bool) -> str:
    """What is still to be waited for after an OSD was marked. Empty: nothing. `safe`: whether Ceph
    would let it be destroyed."""
    if not seen.live:
        return "Ceph's manager hears no mon"
    if not is_marked(seen, mark):
        return f"{mark.named} is not {mark.word}"
    if unrest := restless(seen):
        return f"{unrest} of {groups(seen)} placement groups are still to be moved"
    if not (mark.inside or safe):
        return f"{mark.named} still holds what is nowhere else"
    return ""


def refuse_unattended(seen: Observation, target: Target) -> None:
    """Conflict if there is nobody who would replace its daemons."""
    if ORCHESTRATOR not in seen.modules:
        raise Conflict(
            f"nobody would replace the daemons of Ceph: its manager has no {ORCHESTRATOR}",
            subject=target.cluster,
            reason="CEPH_NO_UPGRADES",
            do="upgrade it by what it was installed with; with Rook, change the image of its "
            "CephCluster",
        )


def refuse_upgrade(seen: Observation, target: Target, *, known: bool = True) -> None:
    """Conflict with all reasons, if the cluster may not be upgraded to that now."""
    refuse_unattended(seen, target)
    standing = len(seen.managers)
    unwell = [said(check) for check in seen.checks if not _is_borne(check, seen.at)]
    unrest, quorum = restless(seen), len(seen.mons.quorum)
    reasons = [
        *_blind(seen, known=known),
        *_too_far(seen, target),
        *unwell,
        *(
            words
            for refused, words in (
                (unrest, f"{unrest} of {groups(seen)} placement groups are not active and clean"),
                (quorum < FEWEST_MONS, f"{quorum} mons are in quorum, and {FEWEST_MONS} must be"),
                (standing < FEWEST_MANAGERS, f"{standing} manager is there, and no other"),
                (seen.osds.flags, f"flags are set: {', '.join(seen.osds.flags)}"),
                (
                    seen.capacity.used_ratio >= FULLEST_BEFORE_UPGRADE,
                    f"{seen.capacity.used_ratio:.0%} of its space is used",
                ),
            )
            if refused
        ),
    ]
    if reasons:
        raise Conflict(
            f"Ceph may not be upgraded to {target.version} now: {'; '.join(reasons)}",
            subject=target.cluster,
            reason="STORAGE_NOT_SAFE",
            do="windlass storage status shows how Ceph is; ask again once it is well",
            facts={"version": seen.version},
        )


def said(check: Check) -> str:
    return f"{check.code}: {check.says}"


def _is_borne(check: Check, at: datetime) -> bool:
    """Whether daemons may be restarted then, while that check fails."""
    is_old = check.latest is not None and at - check.latest > CRASH_COUNTS
    return check.muted or check.code in BEARABLE or (check.code in CRASHES and is_old)


def _too_far(seen: Observation, target: Target) -> list[str]:
    """Daemons of two versions are what an upgrade left that was stopped: one to the newer of them
    is the way out."""
    running = dict.fromkeys((*seen.versions, seen.version))
    reasons = [why for each in running for why in too_far(each, target.version)]
    if len(behind(seen, target)) > 1:
        reasons.append(f"daemons run {', '.join(seen.versions)}")
    return reasons


def behind(seen: Observation, target: Target) -> list[str]:
    """What daemons run besides that version."""
    return [each for each in seen.versions if each != target.version]


def unsound(seen: Observation, target: Target) -> str:
    """What is still to be waited for after an upgrade. Empty: nothing, at this look."""
    if not seen.live:
        return "Ceph's manager hears no mon"
    if others := behind(seen, target):
        return f"daemons still run {', '.join(others)}"
    if 0 < major(seen.release) < Version.parse(target.version).major:
        return f"OSDs may still be of {seen.release}"
    if unrest := restless(seen):
        return f"{unrest} of {groups(seen)} placement groups are not active and clean"
    borne = BEARABLE | CRASHES
    return next((said(it) for it in seen.checks if not it.muted and it.code not in borne), "")


def alarming(seen: Observation) -> str:
    """Why an upgrade that is under way must not go on. Copies are missing now and then meanwhile;
    what nobody is served by, what Ceph calls an error, or what its orchestrator gives up on, is
    another thing."""
    if seen.inactive:
        return f"{seen.inactive} placement groups serve nobody"
    grave = (it for it in seen.checks if it.light is Light.ERR or it.code.startswith(UPGRADE))
    return next(map(said, grave), "")
