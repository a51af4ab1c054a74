"""The tables of nodes and of what runs on them. Rows never leave this room."""

from datetime import datetime

from sqlalchemy import BigInteger, Index, String
from sqlalchemy import text as sql
from sqlalchemy.orm import Mapped, mapped_column

from store.rows import ID, NAME, SORTED, WORD, Row

LONG_NAME = String(253)


class NodeRow(Row):
    """A node. One that has left stays as a record, and keeps its subnet for a while."""

    __tablename__ = "nodes"
    __table_args__ = (Index("uq_nodes_subnet", "subnet", unique=True),)

    id: Mapped[str] = mapped_column(SORTED, primary_key=True)
    phase: Mapped[str] = mapped_column(WORD)
    says: Mapped[str]
    fingerprint: Mapped[str] = mapped_column(String(64))
    address: Mapped[str]
    pool: Mapped[str] = mapped_column(NAME)
    labels: Mapped[str]
    """JSON."""
    runtime: Mapped[str] = mapped_column(WORD)
    subnet: Mapped[str | None] = mapped_column(String(18))
    subnet_until: Mapped[datetime | None]
    """Until when nobody else is given the subnet of a node that has left."""
    cordoned: Mapped[bool]
    drain_until: Mapped[datetime | None]
    """By when everything is to have left it; it is being drained while this is set."""
    heard: Mapped[datetime]
    ceiling: Mapped[float]
    limit_cpu: Mapped[int] = mapped_column(BigInteger)
    limit_memory: Mapped[int] = mapped_column(BigInteger)
    limit_disk: Mapped[int] = mapped_column(BigInteger)
    room_cpu: Mapped[int] = mapped_column(BigInteger)
    """How much of the limit may be taken."""
    room_memory: Mapped[int] = mapped_column(BigInteger)
    room_disk: Mapped[int] = mapped_column(BigInteger)
    taken_cpu: Mapped[int] = mapped_column(BigInteger)
    taken_memory: Mapped[int] = mapped_column(BigInteger)
    taken_disk: Mapped[int] = mapped_column(BigInteger)
    used_cpu: Mapped[int] = mapped_column(BigInteger)
    used_memory: Mapped[int] = mapped_column(BigInteger)
    used_disk: Mapped[int] = mapped_column(BigInteger)
    registrar: Mapped[str] = mapped_column(SORTED, server_default="")
    """Among whose nodes it is counted. Empty: it is not."""


class InstanceRow(Row):
    """One life of an instance. One that is over stays as a record; its id is free again."""

    __tablename__ = "instances"
    __table_args__ = (
        Index(
            "uq_instances_living_id",
            "id",
            "tenant",
            unique=True,
            sqlite_where=sql("ended IS NULL"),
            postgresql_where=sql("ended IS NULL"),
        ),
        Index("ix_instances_id_created", "id", "created"),
        Index("ix_instances_closed_heard", "closed", "heard"),
        Index("ix_instances_node", "node"),
    )

    uid: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(NAME)
    id: Mapped[str] = mapped_column(LONG_NAME)
    caller: Mapped[str]
    spec: Mapped[str]
    """JSON of the domain's InstanceSpec."""
    phase: Mapped[str] = mapped_column(WORD)
    wish: Mapped[str] = mapped_column(WORD)
    says: Mapped[str]
    node: Mapped[str]
    """Empty: it is on none."""
    incarnation: Mapped[int]
    """Grows with every copy that any node was told to make under this id."""
    turn: Mapped[int]
    """Grows with every decision about it: whoever still acts on an older one is late."""
    taken_up: Mapped[bool]
    """Whether its node has said that it has this incarnation."""
    parked: Mapped[bool]
    """Whether its node keeps what it ran in, to start it again."""
    evicted: Mapped[bool]
    """Whether it is to leave its node."""
    avoid: Mapped[str]
    """JSON of the nodes that have refused it since it was last taken up."""
    has_run: Mapped[bool]
    restarts: Mapped[int]
    waits_until: Mapped[datetime | None]
    running_since: Mapped[datetime | None]
    used_cpu: Mapped[int] = mapped_column(BigInteger)
    used_memory: Mapped[int] = mapped_column(BigInteger)
    used_disk: Mapped[int] = mapped_column(BigInteger)
    created: Mapped[datetime]
    changed: Mapped[datetime]
    ended: Mapped[datetime | None]
    closed: Mapped[bool]
    """Whether it is over and nobody looks after it any more: what is left of it, if anything, is on
    nodes that are away, and has it looked after again once one is back."""
    heeded: Mapped[bool]
    """Whether its workflow has seen the latest of what was wished."""
    heard: Mapped[datetime]
    """When its workflow was last heard of."""
    events: Mapped[int]
    """The number of its last journal line."""


class PlacementRow(Row):
    """What an instance has of a node. Also a copy that was left there, until it is removed."""

    __tablename__ = "placements"
    __table_args__ = (
        Index(
            "uq_placements_ip",
            "node",
            "ip",
            unique=True,
            sqlite_where=sql("ip <> ''"),
            postgresql_where=sql("ip <> ''"),
        ),
        Index("ix_placements_workload", "workload"),
        Index("ix_placements_uid", "uid"),
    )

    node: Mapped[str] = mapped_column(SORTED, primary_key=True)
    uid: Mapped[str] = mapped_column(ID, primary_key=True)
    instance: Mapped[str] = mapped_column(LONG_NAME)
    incarnation: Mapped[int]
    left: Mapped[bool]
    """Whether it is no longer the instance's own: it reserves nothing, and is to be removed."""
    waits_until: Mapped[datetime | None]
    """Before then its removal is not tried again."""
    cpu: Mapped[int] = mapped_column(BigInteger)
    memory: Mapped[int] = mapped_column(BigInteger)
    disk: Mapped[int] = mapped_column(BigInteger)
    workload: Mapped[str]
    ip: Mapped[str] = mapped_column(String(45))
    ports: Mapped[str]
    """JSON of the domain's Ports, with every source said."""


class HostPortRow(Row):
    """A port of a node's host that leads into an instance."""

    __tablename__ = "host_ports"

    node: Mapped[str] = mapped_column(SORTED, primary_key=True)
    port: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(ID)


class InstanceEventRow(Row):
    """What happened to an instance, line by line. Never changed."""

    __tablename__ = "instance_events"

    uid: Mapped[str] = mapped_column(ID, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    phase: Mapped[str] = mapped_column(WORD)
    says: Mapped[str]
    node: Mapped[str]
    incarnation: Mapped[int]
