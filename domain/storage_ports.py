"""What the hands and the watch need of a Ceph cluster. Each promise says what asking twice means.

As with all ports, `Unavailable` is worth another try, and an undo that finds nothing to undo has
succeeded. A change is only believed once it has been read: Ceph says yes to much that it never
does."""

from typing import Protocol

from domain.frozen import Frozen
from domain.storage import Observation

OWNER = "windlass."
"""What a pool's owner begins with. It stands among the pool's applications, the only label that
everybody can read who can read the pool."""


class PoolWanted(Frozen):
    """A replicated pool of one owner, for block devices."""

    name: str
    owner: str
    """The uid of whom it belongs to."""
    size: int = 3
    groups: int = 32
    """Placement groups."""
    most_bytes: int = 0
    """Its quota. 0: none."""

    @property
    def named(self) -> str:
        return self.name

    @property
    def mark(self) -> str:
        return f"{OWNER}{self.owner}"


class PoolMade(Frozen):
    """A pool as it was made. Numbers are never given out again, so one of the same name that
    somebody made later is another."""

    wanted: PoolWanted
    number: int
    cluster: str
    """The fsid of the Ceph cluster that it is in."""
    mons: tuple[str, ...] = ()
    """Where clients find that cluster."""

    @property
    def named(self) -> str:
        return self.wanted.name


class Identity(Frozen):
    """Somebody who may use the block devices of one pool, and nothing else."""

    entity: str
    """Such as `client.wl-1f6f6f2c-csi`."""
    pool: str

    @property
    def named(self) -> str:
        return self.entity

    @property
    def caps(self) -> dict[str, str]:
        return {
            "mon": "profile rbd",
            "mgr": f"profile rbd pool={self.pool}",
            "osd": f"profile rbd pool={self.pool}",
        }


class Storage(Protocol):
    """A Ceph cluster."""

    async def observe(self) -> Observation:
        """How it is now."""

    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        """Have the pool, with its owner's mark and its quota. One that is there with that mark is
        brought into line; one of the name without it is AlreadyExists and is left alone."""

    async def delete_pool(self, wanted: PoolWanted) -> None:
        """Delete the pool with all that lies in it. None there is success; one that does not carry
        its owner's mark is Conflict."""

    async def ensure_identity(self, identity: Identity) -> str:
        """The identity's key. Asking again returns the same one; other rights are put right."""

    async def revoke_identity(self, identity: Identity) -> None:
        """Let its key open nothing any more. None there is success."""

    async def place(self, osd: int, *, inside: bool) -> None:
        """Have data placed on an OSD, or moved off it. As it is already is success; an OSD that
        does not exist is NotFound, whatever Ceph says."""

    async def close(self) -> None: ...
