"""What a worker would write: operations taken up, steps seen, ends reached."""

from typing import Any

from sqlalchemy import text

from domain.cluster import Phase
from domain.machine import Sighting
from domain.operation import Mark, Operation, OperationId, Reached, StepKey
from store.access_rows import AuditRow
from store.clusters import Clusters
from store.engine import Database
from store.marks import Marks
from store.operations import Operations
from store.rows import ControllerRow, Row
from store.secrets import Secrets
from store.stocks import Stocks

COUNTED = ("clusters", "pools", "slots", "operations", "journal", "idempotency", "secrets")


class Hands:
    """The stores behind the server's back, as a process of their own has them."""

    def __init__(self, database: Database, vault: Secrets) -> None:
        self.database = database
        self.vault = vault
        self.clusters = Clusters(database, vault)
        self.operations = Operations(database)
        self.stocks = Stocks(database)
        self._marks = Marks(database)

    async def newest(self) -> Operation:
        """The operation that was accepted last."""
        [operation] = await self.operations.page(size=1)
        return operation

    async def begun(self) -> Operation:
        """The same, taken up by its workflow."""
        operation = await self.newest()
        await self.operations.begin(operation.id)
        return operation

    async def ended(self, phase: Phase) -> Operation:
        """The same, taken up and brought to a good end, with its kubeconfig to be given out."""
        operation = await self.begun()
        well = Reached.well(operation.id, phase, f"it is {phase}")
        await self.clusters.reach(well.model_copy(update={"published": phase is not Phase.GONE}))
        return operation

    async def mark(
        self, operation: OperationId, verb: str, subject: str, sighting: Sighting, **seen: Any
    ) -> None:
        step = StepKey(verb=verb, subject=subject)
        mark = Mark(operation=operation, step=step, attempt=1, sighting=sighting, **seen)
        await self._marks.make(mark)

    async def did(self, operation: OperationId, verb: str, subject: str, **seen: Any) -> None:
        """A step from its beginning to its good end."""
        await self.mark(operation, verb, subject, Sighting.BEGAN)
        await self.mark(operation, verb, subject, Sighting.ENDED, **seen)

    async def counts(self) -> dict[str, int]:
        """How many rows there are in every table that a request may write to."""
        found = {}
        async with self.database.session(writes=False) as session:
            for table in COUNTED:
                counted = await session.scalar(text(f"SELECT count(*) FROM {table}"))  # noqa: S608
                found[table] = int(counted or 0)
        return found

    async def everything(self) -> dict[str, list[tuple[object, ...]]]:
        """Every row of every table, but for the audit trail, where refusals are, too, and for what
        an API process says of itself whenever it likes."""
        found = {}
        async with self.database.session(writes=False) as session:
            for table in Row.metadata.sorted_tables:
                if table.name in (AuditRow.__tablename__, ControllerRow.__tablename__):
                    continue
                rows = await session.execute(table.select())
                found[table.name] = sorted((tuple(row) for row in rows), key=repr)
        return found

    async def wrote(self, statement: str, **values: Any) -> None:
        """Change the tables behind the stores' back."""
        async with self.database.session(writes=True) as session:
            await session.execute(text(statement), values)
