"""How much a Ceph cluster can lose before its users notice: a score for every part of it.

A part that has nothing left to lose scores NONE, one that has lost something or was built with too
little DEGRADED. What was never seen has no score at all."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from domain.storage import Figure, FileSystem, Gateway, Mon, Observation, Pool


class Score(IntEnum):
    """The worst first, so that the least of several is that of their group."""

    NONE = 1
    DEGRADED = 2
    OK = 3


FEWEST_MONS = 3
FEWEST_COPIES = 3
FEWEST_MIN_SIZE = 2
PAIR = 2
"""Of daemons that take over from each other."""


def mons(all_mons: Sequence[Mon]) -> Score:
    """Three or any greater odd number on machines of their own is well."""
    number, ready = len(all_mons), sum(mon.in_quorum for mon in all_mons)
    if number < FEWEST_MONS or ready <= number // 2:
        return Score.NONE
    apart = len({mon.host for mon in all_mons}) == number
    return Score.OK if ready == number and number % 2 and apart else Score.DEGRADED


def pair(ready: int) -> Score:
    """Daemons of which one works and the others wait."""
    if ready >= PAIR:
        return Score.OK
    return Score.DEGRADED if ready else Score.NONE


def osds(seen: Observation) -> Score:
    """Any placement group that serves nobody is data out of reach."""
    if seen.inactive or not seen.osds.all:
        return Score.NONE
    whole = all(osd.up and osd.inside for osd in seen.osds.all)
    return Score.OK if whole else Score.DEGRADED


def metadata_servers(file_system: FileSystem, standbys: int) -> Score:
    if file_system.broken or file_system.up < file_system.ranks:
        return Score.NONE
    return Score.OK if standbys + file_system.replaying else Score.DEGRADED


def pool(it: Pool) -> Score:
    """Whether it survives the loss of a machine, and goes on being written to then."""
    if it.data_chunks:
        spare, safe = it.coding_chunks, it.min_size > it.data_chunks
        return Score.NONE if spare <= 0 else Score.OK if spare > 1 and safe else Score.DEGRADED
    if it.size <= 1:
        return Score.NONE
    safe = it.min_size >= FEWEST_MIN_SIZE and it.domain not in ("", "osd")
    return Score.OK if it.size >= FEWEST_COPIES and safe else Score.DEGRADED


def cluster(seen: Observation) -> Score:
    return min(mons(seen.mons.all), managers(seen), osds(seen))


def managers(seen: Observation) -> Score:
    """One that gives no answer is none."""
    active = bool(seen.manager.active) and not seen.manager.silent
    return pair(active + len(seen.manager.standbys))


def file_system(it: FileSystem, seen: Observation) -> Score:
    kept = [pool(each) for each in seen.pools if each.id in it.pools]
    return min([metadata_servers(it, seen.standbys), *kept])


def zones(gateways: Iterable[Gateway]) -> dict[str, int]:
    """The object stores, by the zone they serve, and how many gateways do."""
    found = [each.zone for each in gateways]
    return {zone: found.count(zone) for zone in sorted(set(found))}


def object_store(zone: str, ready: int, seen: Observation) -> Score:
    """The root pool is everybody's; the others carry the zone's name in front."""
    own = (f"{zone}.", ".rgw.root")
    kept = [
        pool(each)
        for each in seen.pools
        if "rgw" in each.applications and each.name.startswith(own)
    ]
    return min([pair(ready), *kept])


PLACES = (Figure.OSDS, Figure.GROUPS)
"""What has to be known to say how well data is kept."""

ALL_PARTS = (*PLACES, Figure.FILE_SYSTEMS, Figure.GATEWAYS)


def parts(seen: Observation) -> list[Score]:
    """Everything that counts, one score each; all pools together are one part."""
    kept = [pool(each) for each in seen.pools]
    return [
        mons(seen.mons.all),
        managers(seen),
        osds(seen),
        *([min(kept)] if kept else []),
        *(file_system(each, seen) for each in seen.file_systems),
        *(object_store(zone, ready, seen) for zone, ready in zones(seen.gateways).items()),
    ]
