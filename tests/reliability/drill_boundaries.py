"""A worker that dies at every boundary of every step: before its effect, after it, and after it
was written down but not reported.

Every boundary gets a cluster of its own. All of them go on until each waits at its boundary; then
the worker dies, once for all of them, and an ordinary one has to make sense of what it finds."""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

from google.longrunning.operations_pb2 import (  # type: ignore[import-untyped]
    CancelOperationRequest,
)
from google.longrunning.operations_pb2_grpc import (  # type: ignore[import-untyped]
    OperationsStub as LongRunningStub,
)

from domain.cluster import ClusterPlan
from domain.operation import Kind, OperationId, StepKey
from domain.outline import keys, outline
from store.engine import Database
from store.operations import Operations
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.reliability.program import DrillError
from tests.reliability.users import Ending, Users
from tests.reliability.verdict import judged, nodes_missing, read

EDGES = ("before", "after", "written")
BOOK_EDGES = ("before", "after")
"""A book is written down by itself."""

BOOKS = {
    Kind.CREATE_CLUSTER: ("progress.begin", "progress.record midway", "progress.record last"),
    Kind.DELETE_CLUSTER: ("progress.begin", "progress.record last"),
}
UNDO_BOOKS = ("progress.record last",)

ARRIVE_SECONDS = 120.0
OPERATION_SECONDS = 240.0


async def drill(seed: int) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    creates, undos = boundaries_of_create(SAMPLE), boundaries_of_undo(SAMPLE)
    clusters = len(creates) + len(undos)
    async with installed("temporal", "site", "api", machines=2 * clusters, draw=draw) as there:
        users = Users(there.grpc)
        database = Database(there.database, connections=2)
        try:
            return await Run(there, users, Operations(database)).run(seed)
        finally:
            await database.close()
            await users.close()
