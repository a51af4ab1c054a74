"""What the resource manager of a cloudlet says of it, and what that allows."""

from enum import StrEnum

from domain.cloudlet import CloudletKey
from domain.flavor import Flavor
from domain.frozen import Frozen
from domain.override import Override
from domain.refusal import Refusal, refuse_if
from domain.usage import Usage


class CloudletState(StrEnum):
    UNKNOWN = "UNKNOWN"
    ERRORS = "ERRORS"
    READY = "READY"
    OFFLINE = "OFFLINE"
    NOT_PRESENT = "NOT_PRESENT"


ABLE = frozenset({CloudletState.READY, CloudletState.ERRORS})
"""In these a resource manager takes work."""


class CloudletInfo(Frozen):
    key: CloudletKey
    state: CloudletState
    flavors: tuple[Flavor, ...] = ()
    """What machines it can make."""
    max_ram: int = 0
    max_vcores: int = 0
    max_disk: int = 0
    """All that there is of it."""
    stream: int = 0
    """Which stream of notify said so. 0: it came another way."""
    controller: str = ""
    """At which API process."""


class Speaker(Frozen):
    """Who says something of what is on a cloudlet: a stream of notify at an API process."""

    cloudlet: str
    """Its key."""
    stream: int
    controller: str


def check_ready(key: CloudletKey, info: CloudletInfo | None, override: Override) -> None:
    """Refuse work for a cloudlet that does not take it, unless it is not asked."""
    if override.ignores_crm or key.is_default:
        return
    state = info.state if info else CloudletState.NOT_PRESENT
    refuse_if(state not in ABLE, Refusal.CLOUDLET_NOT_READY, key=key.text, state=state)


def is_heeded(speaker: Speaker, info: CloudletInfo | None) -> bool:
    """Whether a speaker that has described its cloudlet is still who did so last: not if somebody
    else has by another stream since."""
    if info is None or not info.stream:
        return True
    return (info.stream, info.controller) == (speaker.stream, speaker.controller)


OVERHEAD = Usage(ram=200, vcores=2, disk=200)
"""What a cloudlet needs for itself."""


def check_room(info: CloudletInfo, usage: Usage) -> None:
    """Refuse more than there is on a cloudlet."""
    for what, most in (("ram", info.max_ram), ("vcores", info.max_vcores), ("disk", info.max_disk)):
        wanted = getattr(usage, what) + getattr(OVERHEAD, what)
        refuse_if(wanted > most, Refusal.CLOUDLET_FULL, what=what)


def fitting(info: CloudletInfo, flavor: Flavor) -> str:
    """The name of the smallest machine that holds a flavor."""
    enough = [
        each
        for each in info.flavors
        if each.vcpus >= flavor.vcpus and each.ram >= flavor.ram and each.disk >= flavor.disk
    ]
    refuse_if(not enough, Refusal.CLUSTERINST_NO_FIT, name=flavor.name)
    return min(enough, key=lambda each: (each.vcpus, each.ram, each.disk)).name
