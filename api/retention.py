"""What is forgotten in time, all of it swept out together."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from settings import Settings
from store.changes import Changes
from store.engine import Database
from store.forgetting import Forgetting
from store.purging import Purging
from store.window import FleetWindow

CHANGES_KEPT = timedelta(hours=1)
"""Whoever follows changes is seconds behind, or begins anew."""


def forgetting(
    database: Database, pods: FleetWindow, said: Settings
) -> list[Callable[[], Awaitable[None]]]:
    """Each forgets what nobody asks for any more."""
    nodes, forget = said.nodes, Forgetting(database)
    return [
        partial(forget.operations, said.operations_kept),
        partial(forget.clusters, said.clusters_kept),
        partial(Changes(database).forget, CHANGES_KEPT),
        partial(pods.forget, said.pods.kept),
        Purging(database, nodes.over_kept, nodes.over_most, said.pods.kept).run,
    ]
