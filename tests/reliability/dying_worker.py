"""A worker that dies at boundaries: before a step's effect, after it, after it was written down.

    python dying_worker.py FOLDER

`plan.json` in that folder says for each operation at which boundary it is to be when the worker
dies. Work that reaches its boundary waits there, and what has arrived is written to `arrived`.
Once everything expected is at its boundary, the worker kills itself: one death for all of them.

Nothing of this is in the product: its worker is imported, and gets two interceptors more."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)

import worker
from domain.operation import Reached, StepKey
from workflows.serving import Serving
from workflows.serving import crew as ordinary

ID_LENGTH = 36
BEAT_SECONDS = 1.0


class Plan:
    """Where each operation is to be, and which of them are there."""

    def __init__(self, folder: Path) -> None:
        self._boundaries: dict[str, str] = json.loads((folder / "plan.json").read_text())
        self._arrived = (folder / "arrived").open("a")
        self._there: set[str] = set()

    async def pass_by(self, operation: str, boundary: str) -> None:
        """Go on, or stay for ever if this is where the operation is to be."""
        if self._boundaries.get(operation) != boundary:
            return
        if operation not in self._there:
            self._there.add(operation)
            print(f"{operation} {boundary}", file=self._arrived, flush=True)
        if self._there == self._boundaries.keys():
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            if not activity.info().is_local:
                activity.heartbeat()
            await asyncio.sleep(BEAT_SECONDS)


class Boundaries(Interceptor):
    """One stands inside the logbook, next to the effect; one outside, next to Temporal."""

    def __init__(self, plan: Plan, *, before: str, after: str) -> None:
        self.plan, self.before, self.after = plan, before, after

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Passing(next, self)


class _Passing(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, boundaries: Boundaries) -> None:
        super().__init__(next)
        self._boundaries = boundaries

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        plan = self._boundaries.plan
        operation = (activity.info().workflow_id or "")[-ID_LENGTH:]
        step = _step(input)
        await plan.pass_by(operation, f"{self._boundaries.before} {step}")
        answer = await self.next.execute_activity(input)
        await plan.pass_by(operation, f"{self._boundaries.after} {step}")
        return answer


def _step(input: ExecuteActivityInput) -> str:
    """A hand by its key; a book by its name and, if it books progress, what progress."""
    info = activity.info()
    if not info.is_local:
        return str(StepKey.parse(info.activity_id))
    match input.args:
        case [Reached(stage=None)]:
            return f"{info.activity_type} midway"
        case [Reached()]:
            return f"{info.activity_type} last"
    return info.activity_type


def main() -> int:
    plan = Plan(Path(sys.argv[1]))
    inside = Boundaries(plan, before="before", after="after")
    outside = Boundaries(plan, before="received", after="written")

    def crew(
        client: Client,
        hands: Iterable[object],
        books: Iterable[object],
        interceptors: Sequence[Interceptor],
        serving: Serving,
    ) -> dict[str, Worker]:
        return ordinary(client, hands, books, [outside, *interceptors, inside], serving)

    worker.crew = crew  # type: ignore[attr-defined]
    return worker.main([])


if __name__ == "__main__":
    sys.exit(main())
