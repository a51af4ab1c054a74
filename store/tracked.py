"""What instances of clusters and of apps have in common as rows.

Rows are locked in one order: records that are named, the cloudlet's row of what is taken, the
instance, its operation, whatever that is part of."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakValueDictionary

from sqlalchemy import delete, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.awaiting import Aim
from domain.cloudlet import CloudletKey
from domain.cloudlet_info import CloudletInfo, check_ready
from domain.errors import Failure
from domain.frozen import Frozen
from domain.instance_plan import KINDS, InstancePlan, subject
from domain.key_text import cloudlet_text, name_text
from domain.operation import ACTIVE, Ask, Operation, OperationId, Stage
from domain.override import Override
from domain.patience import Patience
from domain.record import Link, Noun
from domain.refusal import Refusal, refuse_if
from domain.tracking import Phase
from domain.wishes import refuse_wishes
from store import changes, journal, operations, recording, shelf
from store.clock import moment
from store.edge_rows import AppInstRow, ClusterInstRow
from store.quotas import UNLIMITED, Quota
from store.rows import LinkRow, OperationRow, RecordRow, now, table_of

AnyRow: TypeAlias = ClusterInstRow | AppInstRow

ROWS: dict[Noun, type[ClusterInstRow] | type[AppInstRow]] = {
    Noun.CLUSTER_INST: ClusterInstRow,
    Noun.APP_INST: AppInstRow,
}

TENANT = Ask(method="").tenant
"""Everything at the edge is of one tenant."""

_ACTIVE = text(f"operations.stage IN ({', '.join(repr(str(stage)) for stage in sorted(ACTIVE))})")
"""Written out in the statement, since the index is over the active and a parameter says nothing."""


class Terms(Frozen):
    """What an operator decides about instances."""

    patience: Patience = Patience()
    strict: bool = False
    """Whether developers have to exist."""
    enforces: bool = False
    """Whether cloudlets have limits."""
    quota: Quota = UNLIMITED
    """What one developer may keep."""


class Requested(Frozen):
    """What asking for a change led to."""

    operation: Operation
    superseded: OperationId | None = None
    """The operation that must be told to stop."""


class Turns:
    """One at a time for each cloudlet, before a connection is taken: those that would only wait for
    the cloudlet's row in the database keep nobody else from it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: CloudletKey) -> asyncio.Lock:
        """Whoever has it has the turn."""
        return self._locks.setdefault(cloudlet_text(key), asyncio.Lock())


async def held(session: AsyncSession, noun: Noun, key: str) -> AnyRow | None:
    """An instance, held against every other writer. None: there is none."""
    row: AnyRow | None = await session.get(ROWS[noun], key, with_for_update=True)
    return row


async def facts(session: AsyncSession, noun: Noun, key: str) -> str | None:
    """What rules read of a record. None: there is none."""
    found: str | None = await session.scalar(
        select(RecordRow.facts).where(RecordRow.noun == noun, RecordRow.key == key)
    )
    return found


async def info_of(session: AsyncSession, key: CloudletKey) -> CloudletInfo | None:
    """What a cloudlet's resource manager says of it."""
    found = await facts(session, Noun.CLOUDLET_INFO, cloudlet_text(key))
    return CloudletInfo.model_validate_json(found) if found else None


async def refuse_unready(session: AsyncSession, key: CloudletKey, override: Override) -> None:
    """Refuse work for a cloudlet that takes none now."""
    check_ready(key, await info_of(session, key), override)


async def refuse_unknown_developer(session: AsyncSession, name: str, terms: Terms) -> None:
    """With strict references, instances are of developers that there are."""
    if terms.strict:
        link = Link(to=Noun.DEVELOPER, key=name_text(name))
        there = await shelf.hold_named(session, [link])
        refuse_if((str(link.to), link.key) not in there, Refusal.STRICT_DEVELOPER)


async def active(session: AsyncSession, noun: Noun, key: str) -> OperationRow | None:
    """The operation that holds an instance now, there being a row of it or not."""
    return await session.scalar(
        select(OperationRow)
        .where(OperationRow.tenant == TENANT, OperationRow.subject == subject(noun, key), _ACTIVE)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


async def supersede(session: AsyncSession, row: OperationRow | None) -> OperationId | None:
    """Take an instance away from the operation that holds it. It ends here: all it could take back
    are rows, and those are the next one's now."""
    if row is None:
        return None
    row.stage = Stage.SUPERSEDED
    failure = Failure.of(Refusal.INSTANCE_SUPERSEDED())
    operations.end(session, row, Stage.SUPERSEDED, failure.message, failure)
    await session.flush()  # it lets go of the subject before the next one holds it
    return OperationId(row.id)


def record(
    session: AsyncSession,
    plan: InstancePlan,
    ask: Ask,
    *,
    supersedes: OperationId | None = None,
    parent: str = "",
) -> OperationRow:
    """Write an accepted change down."""
    kind = KINDS[plan.noun, plan.aim]
    refuse_wishes(kind, ask)
    return recording.write(
        session,
        OperationId(str(uuid4())),
        kind,
        subject(plan.noun, plan.key),
        plan.model_dump_json(),
        ask,
        supersedes=supersedes,
        parent=parent,
    )


def part_of(row: OperationRow) -> Ask:
    """Whoever asked for an operation asks for its parts."""
    return Ask(tenant=row.tenant, caller=row.requester, method=row.kind)


async def tell(session: AsyncSession, operation: str, *notes: str) -> None:
    """Say it to those who called, and to those who called for what this is part of."""
    while operation and notes:
        row = await operations.locked(session, operation)
        if row.ended is None:
            for note in notes:
                journal.write(session, row, note, told=True)
        operation = row.parent


async def succeed(session: AsyncSession, operation: str) -> None:
    """End an operation well."""
    row = await operations.locked(session, operation)
    note = f"{row.kind} of {row.subject} done"
    operations.end(session, row, Stage.SUCCEEDED, note, None)


def blank() -> dict[str, Any]:
    """What a row says that nothing has been done for yet."""
    moment = now()
    return {
        "facts": "",
        "taken": "{}",
        "holds": False,
        "errors": "[]",
        "operation": "",
        "until": moment,
        "created": moment,
    }


async def claim(
    session: AsyncSession, row: AnyRow, operation: OperationRow, terms: Terms, aim: Aim
) -> None:
    """Let an operation have an instance from here on, and its resource manager so much time."""
    noun = Noun.CLUSTER_INST if isinstance(row, ClusterInstRow) else Noun.APP_INST
    row.operation = operation.id
    row.until = await moment(session) + terms.patience.of(noun, aim)


async def link(session: AsyncSession, noun: Noun, key: str, links: Iterable[Link]) -> None:
    """Write down what an instance names that named nothing before."""
    named = {"noun": noun, "key": key}
    rows = [
        {**named, "target_noun": each.to, "target_key": each.key, "yields": each.yields}
        for each in links
    ]
    await session.execute(insert(table_of(LinkRow)), rows)


async def unlink(session: AsyncSession, noun: Noun, key: str) -> None:
    await session.execute(delete(LinkRow).where(LinkRow.noun == noun, LinkRow.key == key))


async def move(session: AsyncSession, row: AnyRow, to: Phase) -> None:
    """Put an instance into another phase, and let those who follow know."""
    row.phase = to
    noun = Noun.CLUSTER_INST if isinstance(row, ClusterInstRow) else Noun.APP_INST
    await changes.note(session, noun, [row.key])


async def drop(session: AsyncSession, row: AnyRow) -> None:
    """Forget an instance that holds nothing any more."""
    noun = Noun.CLUSTER_INST if isinstance(row, ClusterInstRow) else Noun.APP_INST
    await unlink(session, noun, row.key)
    await session.delete(row)
    await session.flush()
    await changes.note(session, noun, [row.key])


def errors_of(row: AnyRow) -> tuple[str, ...]:
    return texts(row.errors)


def texts(told: str) -> tuple[str, ...]:
    """Some texts as a row keeps them: mostly none."""
    return () if told == "[]" else tuple(json.loads(told))
