"""The tables of what is known of Ceph, beside those in `store/rows.py`."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from store.rows import NAME, Row


class ObservationRow(Row):
    """What was last seen of a Ceph cluster, and who looks next."""

    __tablename__ = "observations"

    cluster: Mapped[str] = mapped_column(NAME, primary_key=True)
    asked: Mapped[datetime]
    """When somebody last set out to look. Nobody else does before the interval is over."""
    every: Mapped[float]
    """The interval, in seconds."""
    seen: Mapped[str]
    """JSON of the domain's Look, or empty: nobody has seen it yet."""
    trouble: Mapped[str]
    """Why the last look failed. Empty: it did not."""
