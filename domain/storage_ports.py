"""What the hands and the watch need of a Ceph cluster. Each promise says what asking twice means.

As with all ports, `Unavailable` is worth another try, and an undo that finds nothing to undo has
succeeded. A change is only believed once it has been read: Ceph says yes to much that it never
does."""

from typing import Protocol

from domain.ports import Node
from domain.share import Identity, PoolMade, PoolWanted
from domain.storage import Observation
from domain.storage_home import Home
from domain.storage_mons import Word
from domain.storage_plan import OsdMark, Renewal, Target


class Sight(Protocol):
    """A Ceph cluster, for those who only look."""

    async def observe(self) -> Observation:
        """How it is now."""


class Mons(Protocol):
    """The mons of a Ceph cluster, for those who would not take the manager's word alone."""

    async def word(self, *, with_osds: bool = False) -> Word:
        """What they say now. Unavailable if none answers in time."""


class Residence(Protocol):
    """The Kubernetes that a Ceph cluster belongs to, for those who only look."""

    async def home(self, node: Node, namespace: str) -> Home:
        """Its nodes, and what runs in that namespace. Kinds that are not there are left out."""


class Upgrades(Protocol):
    """Whoever replaces the daemons of a Ceph cluster by those of another version. There is no way
    back: it can be paused, and go on."""

    async def begin_upgrade(self, target: Target) -> None:
        """Set out for that version, or go on with it. Asking while it is under way, or over,
        changes nothing. Conflict if it is on its way to another."""

    async def pause_upgrade(self) -> None:
        """Replace no further daemon. None under way is success."""

    async def renewal(self) -> Renewal:
        """How far it has come."""


class Storage(Sight, Upgrades, Protocol):
    """A Ceph cluster, for those who change it."""

    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        """Have the pool, with its owner's mark and its quota. One that is there with that mark is
        brought into line; one of the name without it is AlreadyExists and is left alone."""

    async def delete_pool(self, wanted: PoolWanted) -> None:
        """Delete the pool with all that lies in it. None there is success. One that does not carry
        its owner's mark, or has another number than the one that is meant, is somebody else's, is
        left alone, and counts as none."""

    async def ensure_identity(self, identity: Identity) -> None:
        """Have the identity, and its key in the vault. The key stays the same however often it is
        asked for; other rights are put right."""

    async def revoke_identity(self, identity: Identity) -> None:
        """Let its key open nothing any more. None there is success."""

    async def mark_osd(self, mark: OsdMark) -> None:
        """Have data placed on the OSD, or on it no more. Marking it the same again changes nothing.
        NotFound if there is no such OSD."""

    async def safe_to_destroy(self, osd: int) -> bool:
        """Whether nothing that lies on the OSD is missing elsewhere. An OSD that Ceph has no news
        of is not safe."""
