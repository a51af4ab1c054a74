"""What is to be done to a Ceph cluster as a whole: the plans of the operations that do it."""

import re

from domain.errors import Conflict, Invalid, Violation
from domain.frozen import Frozen
from domain.share import Share

MOST_OSDS = 64
"""So many are taken out or in at once."""

MOST_GROUPS = 4096
POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


def subject(cluster: str) -> str:
    """What holds a Ceph cluster: one at a time takes OSDs out or in, or upgrades it."""
    return f"ceph/{cluster}"


def pool_subject(name: str) -> str:
    return f"pool/{name}"


class OsdMark(Frozen):
    """Whether data is to be placed on an OSD."""

    id: int
    inside: bool

    @property
    def named(self) -> str:
        return f"osd.{self.id}"

    @property
    def word(self) -> str:
        """Ceph's."""
        return "in" if self.inside else "out"

    def back(self) -> "OsdMark":
        return self.model_copy(update={"inside": not self.inside})


class Marking(Frozen):
    """OSDs that are taken out of a cluster, or in, together: what is moved is moved once."""

    cluster: str
    marks: tuple[OsdMark, ...]

    @property
    def named(self) -> str:
        return self.cluster

    @property
    def inside(self) -> bool:
        return any(mark.inside for mark in self.marks)

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(mark.id for mark in self.marks)


class Target(Frozen):
    """The version that a Ceph cluster is to run."""

    cluster: str
    version: str
    done: int = 0
    """How many daemons ran it when it was last looked: more, or fewer, are news."""

    @property
    def named(self) -> str:
        return self.cluster


class Renewal(Frozen):
    """How far the upgrade of a Ceph cluster has come."""

    version: str
    """What its manager runs."""
    running: bool = False
    """Whether any upgrade is under way, paused or not."""
    paused: bool = False
    image: str = ""
    """What it is upgraded to, as whoever does it says."""
    done: int = 0
    total: int = 0
    """Daemons. 0: nobody says."""
    trouble: str = ""
    """Why it must not go on."""
    versions: tuple[str, ...] = ()
    """Those that daemons run, where that is known."""

    def is_over(self, target: Target) -> bool:
        """Whether nobody is at it any more. The manager is the first to be replaced, so others may
        have been left behind."""
        return not self.running and self.version == target.version

    def is_whole(self, target: Target) -> bool:
        """Whether none was."""
        return self.is_over(target) and {*self.versions} <= {target.version}

    def said(self, target: Target) -> str:
        counted = f"{self.done} of {self.total} daemons run" if self.total else "on the way to"
        return f"{counted} {target.version}"


class StoragePlan(Frozen):
    """What an operation on a Ceph cluster was accepted to do: one of these."""

    cluster: str
    marking: Marking | None = None
    share: Share | None = None
    target: Target | None = None


def ids(said: tuple[int, ...]) -> tuple[int, ...]:
    """The OSDs that are meant, each once."""
    meant = tuple(sorted(set(said)))
    if not meant or len(meant) > MOST_OSDS or meant[0] < 0:
        raise _wrong("osds", f"name 1 to {MOST_OSDS} OSDs by their numbers")
    return meant


def pool_name(said: str) -> str:
    """The name of a pool of somebody's own. Those of clusters begin with `wl-`, and are theirs."""
    if not POOL_NAME.fullmatch(said) or said.startswith("wl-"):
        raise _wrong(
            "name",
            "must be 1 to 63 lower-case letters, digits, dots and dashes, and not begin with wl-",
        )
    return said


def refuse_unconfirmed(name: str, confirmed: str) -> None:
    """Data goes for good only if its name was typed twice."""
    if confirmed != name:
        raise Conflict(
            f"the pool {name} and all that lies in it would be gone for good",
            subject=name,
            reason="DATA_AT_STAKE",
            do=f"type its name again: windlass storage pool delete {name} --delete-data {name}",
            facts={"pool": name},
        )


def _wrong(field: str, description: str) -> Invalid:
    violation = Violation(field=field, description=description)
    return Invalid(f"{field}: {description}", subject=field, violations=[violation])
