"""The tables of who may come in: users, their tokens, what was guessed wrong; and who did what."""

from datetime import datetime

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from store.rows import COUNTER, ID, NAME, SORTED, WORD, Row

DIGEST = String(64)


class UserRow(Row):
    """Somebody who can sign in. Users are disabled and not deleted: the audit trail names them."""

    __tablename__ = "users"

    name: Mapped[str] = mapped_column(SORTED, primary_key=True)
    tenant: Mapped[str] = mapped_column(NAME)
    role: Mapped[str] = mapped_column(WORD)
    developer: Mapped[str]
    password: Mapped[str]
    """As argon2 writes it, with its salt and parameters. Empty: there is none."""
    disabled: Mapped[bool]
    created: Mapped[datetime]


class TokenRow(Row):
    """A token, by its SHA-256. Whoever reads this table can sign in as nobody."""

    __tablename__ = "tokens"
    __table_args__ = (
        Index("ix_tokens_user_name", "user_name"),
        Index("ix_tokens_ended", "ended"),
        Index("ix_tokens_parent", "parent"),
    )

    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    id: Mapped[str] = mapped_column(ID, unique=True)
    user_name: Mapped[str] = mapped_column(SORTED)
    label: Mapped[str]
    created: Mapped[datetime]
    expires: Mapped[datetime]
    idle_seconds: Mapped[int]
    """How long it may lie unused. 0: until it expires."""
    used: Mapped[datetime]
    ended: Mapped[datetime]
    """From when on it is no good any more, unless it is used before."""
    revoked: Mapped[datetime | None]
    source: Mapped[str]
    cloudlets: Mapped[str] = mapped_column(server_default="[]")
    """JSON: OPERATOR/NAME of the only ones that it may speak of. Empty: agents
    of none, all others of any."""
    parent: Mapped[str] = mapped_column(DIGEST, server_default="")
    """The token that it was made with, by its digest, and with which it ends. Empty: none."""
    nodes: Mapped[str] = mapped_column(server_default="[]")
    """JSON: the only nodes that an agent may speak for with it."""


class AttemptRow(Row):
    """How often somebody guessed wrong, by who they said to be and where they were."""

    __tablename__ = "attempts"
    __table_args__ = (Index("ix_attempts_last", "last"),)

    who: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    failures: Mapped[int]
    last: Mapped[datetime]
    told: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether whoever it was has been told to wait."""


class AuditRow(Row):
    """That somebody changed something, or tried to. Each line is chained to the one before."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_user_name_number", "user_name", "number"),
        Index("ix_audit_began", "began"),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[int] = mapped_column(COUNTER, primary_key=True)
    time: Mapped[datetime]
    user_name: Mapped[str] = mapped_column(SORTED)
    line: Mapped[str]
    """JSON of the domain's Deed, as it was hashed."""
    chain: Mapped[str] = mapped_column(DIGEST)
    """SHA-256 of the chain before and the line."""
    began: Mapped[int | None] = mapped_column(COUNTER)
    """The line whose call this one ends, as the line says, too."""


class AuditBeginningRow(Row):
    """The last of the lines that were removed for their age: the trail begins behind the newest."""

    __tablename__ = "audit_beginnings"

    number: Mapped[int] = mapped_column(COUNTER, primary_key=True, autoincrement=False)
    chain: Mapped[str] = mapped_column(DIGEST)
