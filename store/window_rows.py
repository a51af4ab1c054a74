"""The tables of what nodes report: their pods, images, events and logs."""

from datetime import datetime

from sqlalchemy import BigInteger, Index, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from store.rows import COUNTER, ID, NAME, SORTED, WORD, Row


class ReporterRow(Row):
    """How far a node's reports have been taken."""

    __tablename__ = "reporters"

    node: Mapped[str] = mapped_column(SORTED, primary_key=True)
    epoch: Mapped[str] = mapped_column(ID)
    taken: Mapped[int] = mapped_column(BigInteger)


class PodRow(Row):
    """A pod as its node saw it last."""

    __tablename__ = "pods"
    __table_args__ = (Index("ix_pods_node", "node"), Index("ix_pods_garbage", "garbage"))

    id: Mapped[str] = mapped_column(SORTED, primary_key=True)
    node: Mapped[str] = mapped_column(SORTED)
    tenant: Mapped[str] = mapped_column(NAME)
    state: Mapped[str] = mapped_column(WORD)
    garbage: Mapped[datetime | None]
    """Since when there is no more of it than this."""
    document: Mapped[str]


class ImageRow(Row):
    """An image that a node has."""

    __tablename__ = "images"

    node: Mapped[str] = mapped_column(SORTED, primary_key=True)
    id: Mapped[str] = mapped_column(SORTED, primary_key=True)
    document: Mapped[str]


class HappeningRow(Row):
    """What happened to a pod or an image, followed in the order of `era` and `number`."""

    __tablename__ = "happenings"
    __table_args__ = (
        Index("ix_happenings_era_number", "era", "number"),
        Index("ix_happenings_time_ns", "time_ns"),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[int] = mapped_column(COUNTER, primary_key=True)
    era: Mapped[int] = mapped_column(BigInteger)
    """PostgreSQL's number of the writing transaction; 0 on SQLite, where writers take turns."""
    node: Mapped[str] = mapped_column(SORTED)
    time_ns: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str]


class LogRow(Row):
    """A piece of what an app wrote."""

    __tablename__ = "logs"
    __table_args__ = (
        Index("uq_logs_place", "pod", "app", "position", unique=True),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[int] = mapped_column(COUNTER, primary_key=True)
    pod: Mapped[str] = mapped_column(SORTED)
    app: Mapped[str] = mapped_column(SORTED)
    position: Mapped[int] = mapped_column(BigInteger)
    """Where in the app's log it begins, in bytes."""
    lines: Mapped[bytes] = mapped_column(LargeBinary)
