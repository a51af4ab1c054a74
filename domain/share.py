"""A cluster's own share of Ceph: a pool, and somebody who may use that pool and nothing else.

Names follow from the cluster's uid and are never drawn twice, so whoever takes the work up again
finds what is there."""

from domain.errors import Conflict
from domain.frozen import Frozen

OWNER = "windlass."
"""What a pool's owner begins with. It stands among the pool's applications, the only label that
everybody can read who can read the pool."""

SHORT = 8
"""So much of a uid is in a name."""


class PoolTerms(Frozen):
    """What every pool is made with."""

    copies: int = 3
    groups: int = 32
    """Placement groups."""
    most_bytes: int = 0
    """Its quota. 0: none."""


class PoolWanted(Frozen):
    """A replicated pool of one owner, for block devices."""

    name: str
    owner: str
    """The uid of whom it belongs to."""
    copies: int = 3
    groups: int = 32
    most_bytes: int = 0
    id: int = 0
    """Its number, of one that is to be deleted: Ceph gives none out twice, and a pool of the same
    name that was made since is another. 0: whichever it has."""

    @property
    def named(self) -> str:
        return self.name

    @property
    def mark(self) -> str:
        return f"{OWNER}{self.owner}"


class PoolMade(Frozen):
    """A pool as it was made, and where its cluster is found."""

    wanted: PoolWanted
    cluster: str
    """The fsid of the Ceph cluster that it is in."""
    mons: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        return self.wanted.name


class Identity(Frozen):
    """Somebody who may use the block devices of one pool."""

    entity: str
    """Such as `client.wl-1f6f6f2c-csi`."""
    pool: str
    owner: str

    @property
    def named(self) -> str:
        return self.entity

    @property
    def user(self) -> str:
        """As clients are told it."""
        return self.entity.removeprefix("client.")

    @property
    def secret(self) -> str:
        """Where its key lies in the vault: it goes when the cluster does."""
        return f"cluster/{self.owner}/storage"

    @property
    def caps(self) -> dict[str, str]:
        return {
            "mon": "profile rbd",
            "mgr": f"profile rbd pool={self.pool}",
            "osd": f"profile rbd pool={self.pool}",
        }


class Share(Frozen):
    """What a cluster gets of Ceph."""

    pool: PoolWanted
    identity: Identity

    @classmethod
    def of(cls, uid: str, terms: PoolTerms, name: str = "") -> "Share":
        """`name`: the pool's, if somebody chose one. The identity's is never chosen, or it might be
        that of somebody else."""
        stem = f"wl-{uid.replace('-', '')[:SHORT]}"
        pool = PoolWanted(name=name or f"{stem}-rbd", owner=uid, **terms.model_dump())
        return cls(
            pool=pool,
            identity=Identity(entity=f"client.{stem}-csi", pool=pool.name, owner=uid),
        )


def shared(uid: str, terms: PoolTerms | None) -> Share:
    """What a cluster of that uid gets. None: there is nothing to be had."""
    if terms is None:
        raise Conflict(
            "there is no Ceph cluster here",
            reason="STORAGE_NOT_CONFIGURED",
            do="set WINDLASS_CEPH__URLS to where its dashboards are, or ask without storage",
        )
    return Share.of(uid, terms)


def decided(name: str, share: Share, *, keeps: bool) -> Conflict:
    """What goes on keeps data, or does not. Who wishes otherwise is not told that it will be so."""
    becomes = "kept" if keeps else "deleted"
    return Conflict(
        f"the data of cluster {name}, in the pool {share.pool.name}, is being {becomes} already",
        subject=name,
        reason="DATA_DECIDED",
        do="windlass op list shows by what; it can be waited for, or perhaps be called off",
        facts={"pool": share.pool.name},
    )


def refuse_to_choose(name: str, share: Share | None, *, settled: bool) -> None:
    """Whether data is kept is for whoever owns it to say. Nothing is assumed."""
    if share is None or settled:
        return
    raise Conflict(
        f"cluster {name} has data in Ceph, in the pool {share.pool.name}",
        subject=name,
        reason="DATA_AT_STAKE",
        do=f"say what becomes of it: windlass cluster delete {name} --keep-data, or --delete-data "
        f"{name}; in a call the metadata windlass-data: keep, or delete {name}",
        facts={"pool": share.pool.name},
    )
