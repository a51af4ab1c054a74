"""The tables. Rows never leave this room: every store method answers in the domain's words."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, LargeBinary, MetaData, String, Text, TypeDecorator
from sqlalchemy import DateTime as SqlDateTime
from sqlalchemy import Engine as Engine
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Moment(TypeDecorator[datetime]):
    """A point in time, in UTC. SQLite forgets the zone; it is put back on reading."""

    impl = SqlDateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Row(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {datetime: Moment, str: Text}  # noqa: RUF012 (SQLAlchemy's own name)


class ClusterRow(Row):
    """A cluster, deleted ones included: their names are free again, their history is not lost."""

    __tablename__ = "clusters"
    __table_args__ = (
        Index("uq_clusters_name_living", "tenant", "name", unique=True,
              sqlite_where=Text("phase != 'gone'"), postgresql_where=Text("phase != 'gone'")),
    )

    uid: Mapped[str] = mapped_column(String(36), primary_key=True)
    tenant: Mapped[str] = mapped_column(String(63))
    name: Mapped[str] = mapped_column(String(63))
    phase: Mapped[str] = mapped_column(String(16))
    message: Mapped[str]
    version: Mapped[str] = mapped_column(String(32))
    endpoint: Mapped[str]
    published: Mapped[bool]
    operation: Mapped[str] = mapped_column(String(36))
    created: Mapped[datetime]
    changed: Mapped[datetime]
