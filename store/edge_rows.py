"""The tables of what runs at the edge, and of what it takes there."""

from datetime import datetime

from sqlalchemy import BigInteger, Index
from sqlalchemy.orm import Mapped, mapped_column

from store.rows import ID, SORTED, WORD, Row


class Tracked:
    """What instances have in common."""

    key: Mapped[str] = mapped_column(SORTED, primary_key=True)
    cloudlet: Mapped[str] = mapped_column(SORTED)
    phase: Mapped[str] = mapped_column(WORD)
    facts: Mapped[str]
    """JSON of the domain's ClusterInst or AppInst."""
    taken: Mapped[str]
    """JSON of the domain's Taken: what it took last."""
    holds: Mapped[bool]
    """Whether it has that still."""
    errors: Mapped[str]
    """JSON: what its resource manager said last of what went wrong."""
    operation: Mapped[str] = mapped_column(ID)
    """The operation that changed it last; whether that still runs is told by its row."""
    until: Mapped[datetime]
    """How long its resource manager may take for that."""
    created: Mapped[datetime]


class ClusterInstRow(Tracked, Row):
    """A cluster on a cloudlet."""

    __tablename__ = "clusterinsts"
    __table_args__ = (Index("ix_clusterinsts_cloudlet_key", "cloudlet", "key"),)

    before: Mapped[str] = mapped_column(WORD)
    """What it was before it was to be deleted, while what is in it goes."""
    nodes_before: Mapped[int]
    """How many nodes it had before it was to have others."""


class AppInstRow(Tracked, Row):
    """An app that runs on a cloudlet."""

    __tablename__ = "appinsts"
    __table_args__ = (
        Index("ix_appinsts_cloudlet_key", "cloudlet", "key"),
        Index("ix_appinsts_cluster_key", "cluster", "key"),
    )

    app: Mapped[str] = mapped_column(SORTED)
    cluster: Mapped[str] = mapped_column(SORTED)
    runtime: Mapped[str]
    """JSON: the containers that its resource manager told of."""


class CloudletRefsRow(Row):
    """What is taken of a cloudlet. Whoever takes or gives back holds it meanwhile."""

    __tablename__ = "cloudlet_refs"

    cloudlet: Mapped[str] = mapped_column(SORTED, primary_key=True)
    operator: Mapped[str]
    name: Mapped[str]
    clusters: Mapped[str]
    """JSON: the names of clusters, one per cluster, in the order in which they came."""
    ram: Mapped[int] = mapped_column(BigInteger)
    vcores: Mapped[int] = mapped_column(BigInteger)
    disk: Mapped[int] = mapped_column(BigInteger)
    addresses: Mapped[int]
    ports: Mapped[str]
    """JSON: runs of public ports, and the protocols taken on each as bits."""
