"""The tables. Rows never leave this room: every store method answers in the domain's words."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    and_,
)
from sqlalchemy import text as sql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Moment(TypeDecorator[datetime]):
    """A point in time, in UTC. SQLite forgets the zone; it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Prose(TypeDecorator[str]):
    """Text of any length. Others may have written it, and PostgreSQL takes no NUL: one that a host
    printed is replaced, lest it sink the whole transaction."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return value.replace("\x00", "\N{REPLACEMENT CHARACTER}") if value else value


def now() -> datetime:
    return datetime.now(UTC)


SORTED = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that both databases sort as bytes."""

SORTED_REFERENCE = String(255).with_variant(String(255, collation="C"), "postgresql")

COUNTER = BigInteger().with_variant(Integer, "sqlite")

ID = String(36)
NAME = String(63)
WORD = String(32)


def below(column: Any, prefix: str) -> ColumnElement[bool]:
    """Whether a text that is sorted as bytes begins with a prefix, which is not empty. Unlike LIKE
    this is found by the column's index on both databases."""
    past = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    found: ColumnElement[bool] = and_(column >= prefix, column < past)
    return found


class Row(DeclarativeBase):
    """One row of one table."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {datetime: Moment, str: Prose}  # noqa: RUF012 (the library's own name)


def table_of(row: type[Row]) -> Table:
    """The table itself, for those who write many rows at once or few very often."""
    return Row.metadata.tables[row.__tablename__]


def _only_one(name: str, *columns: str, where: str) -> Index:
    """A unique index over the rows for which `where` holds."""
    return Index(name, *columns, unique=True, sqlite_where=sql(where), postgresql_where=sql(where))


class ClusterRow(Row):
    """A cluster. A deleted one stays as a record; its name is free again."""

    __tablename__ = "clusters"
    __table_args__ = (
        _only_one("uq_clusters_living_name", "name", "tenant", where="phase <> 'gone'"),
    )

    uid: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(NAME)
    name: Mapped[str] = mapped_column(NAME)
    phase: Mapped[str] = mapped_column(WORD)
    message: Mapped[str]
    """What its operation said last."""
    trouble: Mapped[str]
    """What was seen since then that is not as it should be."""
    version: Mapped[str] = mapped_column(WORD)
    pending: Mapped[str] = mapped_column(WORD)
    """The version that is wanted while an upgrade to it is not finished, or empty."""
    endpoint: Mapped[str]
    published: Mapped[bool]
    operation: Mapped[str] = mapped_column(ID)
    policy: Mapped[str] = mapped_column(WORD)
    """What is done about nodes that do not work while nobody asks."""
    proposal: Mapped[str]
    """What a repair would do, for those who read of the cluster. Empty: nothing, or nobody says."""
    created: Mapped[datetime]
    changed: Mapped[datetime]
    owner: Mapped[str] = mapped_column(server_default="")
    """What it was made for, as its maker wrote it down. Empty: nobody said."""


class PoolRow(Row):
    """A pool of workers and how many of them are wanted."""

    __tablename__ = "pools"

    cluster: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    ordinal: Mapped[int]
    wanted: Mapped[int]
    instance_type: Mapped[str]
    labels: Mapped[str]
    """JSON."""


class SlotRow(Row):
    """A place for a machine, and what fills it. The table of machines we have anything to do
    with: whatever MAAS says is ours and stands in no row here is a leak."""

    __tablename__ = "slots"

    cluster: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    pool: Mapped[str] = mapped_column(NAME)
    ordinal: Mapped[int]
    slot: Mapped[str]
    """JSON of the domain's Slot: what was planned never changes, but for its release."""
    phase: Mapped[str] = mapped_column(WORD)
    system_id: Mapped[str]
    hostname: Mapped[str]
    address: Mapped[str]
    status: Mapped[str]
    kubelet: Mapped[str]
    node: Mapped[str]
    """JSON of the domain's NodeSeen, or empty: nobody looked since it became one."""
    machine: Mapped[str]
    """JSON of the domain's MachineSeen, or empty."""
    changed: Mapped[datetime]
    mends: Mapped[int]
    """How often in a row its node was to be mended."""
    mended: Mapped[datetime | None]


class WatchRow(Row):
    """What was last seen of a cluster as a whole, by whoever watches it."""

    __tablename__ = "watches"

    cluster: Mapped[str] = mapped_column(ID, primary_key=True)
    heard: Mapped[datetime]
    """When its watcher was last heard of."""
    confirmed: Mapped[datetime | None]
    """When it was last seen that the rows say how it is."""
    inspected: Mapped[datetime | None]
    """When its hosts were last asked."""
    inside: Mapped[str]
    """JSON of the domain's Inside, or empty."""
    silent_since: Mapped[datetime | None]
    why: Mapped[str]
    led: Mapped[str] = mapped_column(server_default="")
    """The addresses that the endpoint was last led to between operations, with spaces between."""


class OperationRow(Row):
    """One accepted change. At most one that is active stands for each subject."""

    __tablename__ = "operations"
    __table_args__ = (
        _only_one(
            "uq_operations_active_subject",
            "tenant",
            "subject",
            where="stage IN ('requested', 'running')",
        ),
        Index("ix_operations_created_id", "created", "id"),
        Index("ix_operations_subject_created_id", "subject", "created", "id"),
        Index("ix_operations_cluster", "cluster"),
        Index("ix_operations_stage_ended", "stage", "ended"),
        Index("ix_operations_requester_ended", "requester", "ended"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(NAME)
    kind: Mapped[str] = mapped_column(WORD)
    subject: Mapped[str]
    cluster: Mapped[str] = mapped_column(ID)
    plan: Mapped[str]
    """JSON, frozen when the operation was accepted."""
    stage: Mapped[str] = mapped_column(WORD)
    requester: Mapped[str]
    request_id: Mapped[str]
    created: Mapped[datetime]
    started: Mapped[datetime | None]
    heard: Mapped[datetime]
    """When anything was last written for it, or its workflow was last found alive: the sweep looks
    at what has been silent."""
    ended: Mapped[datetime | None]
    cancel_requested: Mapped[bool]
    cancelled_by: Mapped[str]
    paused_by: Mapped[str]
    paused: Mapped[datetime | None]
    """Since when."""
    gate: Mapped[str]
    """What it stands before until somebody approves."""
    gate_until: Mapped[datetime | None]
    approved: Mapped[str]
    """The gate that was opened last."""
    heeded: Mapped[bool]
    """Whether its workflow has seen the latest of these wishes."""
    supersedes: Mapped[str] = mapped_column(ID)
    waiting_on: Mapped[str]
    failure: Mapped[str]
    """JSON, or empty."""
    left_behind: Mapped[str]
    """JSON of what a forced delete did not give back, or empty."""
    headline: Mapped[str]
    """How far it has come in words of its own; empty: its steps are counted."""
    steps: Mapped[int]
    steps_done: Mapped[int]
    events: Mapped[int]
    """The number of the last journal line."""
    parent: Mapped[str] = mapped_column(ID, server_default="")
    """The operation that this one is part of, whose callers are told what is told of this."""


class StepRow(Row):
    """A step as it was last seen."""

    __tablename__ = "steps"
    __table_args__ = (Index("ix_steps_verb_state_ended", "verb", "state", "ended"),)

    operation: Mapped[str] = mapped_column(ID, primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    verb: Mapped[str] = mapped_column(String(63))
    state: Mapped[str] = mapped_column(WORD)
    started: Mapped[datetime]
    ended: Mapped[datetime | None]
    seconds: Mapped[float | None]
    """From where it first began to its first good end; what a repeat took is not counted."""
    attempts: Mapped[int]
    note: Mapped[str]


class JournalRow(Row):
    """What happened to an operation, line by line. Never changed, never deleted alone."""

    __tablename__ = "journal"

    operation: Mapped[str] = mapped_column(ID, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    note: Mapped[str]
    stage: Mapped[str] = mapped_column(WORD)
    step: Mapped[str]
    """JSON of the step as it was then, or empty."""
    failure: Mapped[str]
    last: Mapped[bool]
    told: Mapped[bool] = mapped_column(server_default=sql("false"))
    """Whether it is for those who called, in the words of their contract."""


class AnswerRow(Row):
    """Which operation a caller's request id led to."""

    __tablename__ = "idempotency"
    __table_args__ = (Index("ix_idempotency_created", "created"),)

    tenant: Mapped[str] = mapped_column(NAME, primary_key=True)
    caller: Mapped[str] = mapped_column(String(255), primary_key=True)
    method: Mapped[str] = mapped_column(String(255), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    operation: Mapped[str] = mapped_column(ID)
    created: Mapped[datetime]


class MachineFailureRow(Row):
    """A machine that let a slot down, once."""

    __tablename__ = "machine_failures"
    __table_args__ = (Index("ix_machine_failures_time", "time"),)

    system_id: Mapped[str] = mapped_column(NAME, primary_key=True)
    operation: Mapped[str] = mapped_column(ID, primary_key=True)
    slot: Mapped[str] = mapped_column(NAME, primary_key=True)
    turn: Mapped[int] = mapped_column(primary_key=True)
    hostname: Mapped[str]
    cluster: Mapped[str] = mapped_column(NAME)
    why: Mapped[str]
    time: Mapped[datetime]


class SecretRow(Row):
    """A sealed secret."""

    __tablename__ = "secrets"

    reference: Mapped[str] = mapped_column(SORTED_REFERENCE, primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)
    sealed_with: Mapped[str] = mapped_column(WORD)
    """Which key of ours, by its name."""
    changed: Mapped[datetime]
    wrapped: Mapped[bytes] = mapped_column(LargeBinary, server_default="")
    """Its data key, sealed. Empty: it lies under our key itself, as at first."""


class StockRow(Row):
    """What the machine pool held when it was last asked. One row."""

    __tablename__ = "stock"

    pool: Mapped[str] = mapped_column(NAME, primary_key=True)
    machines: Mapped[int]
    tagged: Mapped[str]
    """JSON: machines by tag."""
    seen: Mapped[datetime]


class RecordRow(Row):
    """What somebody described at the edge, as bytes that only its contract understands."""

    __tablename__ = "records"

    noun: Mapped[str] = mapped_column(WORD, primary_key=True)
    key: Mapped[str] = mapped_column(SORTED, primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
    facts: Mapped[str]
    """JSON of what rules read, or empty."""


class LinkRow(Row):
    """That a record names another, which need not be there."""

    __tablename__ = "links"
    __table_args__ = (Index("ix_links_target", "target_noun", "target_key", "noun", "yields"),)

    noun: Mapped[str] = mapped_column(WORD, primary_key=True)
    key: Mapped[str] = mapped_column(SORTED, primary_key=True)
    target_noun: Mapped[str] = mapped_column(WORD, primary_key=True)
    target_key: Mapped[str] = mapped_column(SORTED, primary_key=True)
    yields: Mapped[bool]


class ChangeRow(Row):
    """That a record was written or deleted: what followers look at, in the order of `era` and
    `number`."""

    __tablename__ = "changes"
    __table_args__ = (
        Index("ix_changes_era_number", "era", "number"),
        Index("ix_changes_time", "time"),
        {"sqlite_autoincrement": True},  # a number that was forgotten is never given out again
    )

    number: Mapped[int] = mapped_column(COUNTER, primary_key=True)
    era: Mapped[int] = mapped_column(BigInteger)
    """PostgreSQL's number of the writing transaction; 0 on SQLite, where writers take turns."""
    noun: Mapped[str] = mapped_column(WORD)
    key: Mapped[str]
    time: Mapped[datetime]


class ControllerRow(Row):
    """That an API process is alive, until when."""

    __tablename__ = "controllers"

    address: Mapped[str] = mapped_column(SORTED, primary_key=True)
    until: Mapped[datetime]
