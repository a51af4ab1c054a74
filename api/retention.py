"""What is forgotten in time, all of it swept out together."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from store.changes import Changes
from store.engine import Database
from store.forgetting import Forgetting
from store.purging import Purging
from store.window import FleetWindow

CHANGES_KEPT = timedelta(hours=1)
"""Whoever follows changes is seconds behind, or begins anew."""


class Kept(NamedTuple):
    """How long what is over is kept, as the operator has it."""

    operations: timedelta
    clusters: timedelta
    pods: timedelta
    instances: timedelta
    most_instances: int


def forgetting(
    database: Database, pods: FleetWindow, kept: Kept
) -> list[Callable[[], Awaitable[None]]]:
    """Each forgets what nobody asks for any more."""
    forget = Forgetting(database)
    return [
        partial(forget.operations, kept.operations),
        partial(forget.clusters, kept.clusters),
        partial(Changes(database).forget, CHANGES_KEPT),
        partial(pods.forget, kept.pods),
        Purging(database, kept.instances, kept.most_instances, kept.pods).run,
    ]
