"""Changes that are tried out: carried up to their commit, and taken back.

While a rehearsal is under way every writing transaction does its work, is rolled back, and ends its
caller with `Rehearsed`. So what is rehearsed is the very thing that would be done."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from domain.cluster import ClusterPlan
from domain.operation import Kind
from domain.storage_plan import StoragePlan


class Rehearsed(Exception):  # noqa: N818 (nothing went wrong)
    """What would have been committed has been taken back."""


@dataclass(frozen=True)
class Accepted:
    """An operation that would have been recorded."""

    kind: Kind
    subject: str
    plan: ClusterPlan | StoragePlan


@dataclass
class Rehearsal:
    """What came of it."""

    reached: bool = False
    """Whether it came to the point of a commit at all."""
    accepted: Accepted | None = None
    """None: nothing would have been started."""


_UNDER_WAY: ContextVar[Rehearsal | None] = ContextVar("rehearsal", default=None)


@contextmanager
def rehearsing() -> Iterator[Rehearsal]:
    """Whatever the block asks of any store is rehearsed. It ends with the first transaction that
    would write, and with whatever error is raised before."""
    rehearsal = Rehearsal()
    token = _UNDER_WAY.set(rehearsal)
    try:
        with suppress(Rehearsed):
            yield rehearsal
    finally:
        _UNDER_WAY.reset(token)


def under_way() -> Rehearsal | None:
    """The rehearsal, if this is one."""
    return _UNDER_WAY.get()


def end_here() -> None:
    """Called where a transaction would commit."""
    if (rehearsal := _UNDER_WAY.get()) is not None:
        rehearsal.reached = True
        raise Rehearsed
