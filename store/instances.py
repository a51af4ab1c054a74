"""Instances: asked for, asked to start, stop and go, and followed.

An instance is its own operation: its row says what is wished, its journal what became of it, and
its workflow does what is due by the row. So what its callers want is written here and nowhere
else, whether or not a worker is there to do it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from uuid import uuid4

from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.agents import environment_of
from domain.errors import AlreadyExists
from domain.instance import (
    WISHES,
    Call,
    InstanceEvent,
    InstanceSpec,
    InstanceUid,
    InstanceView,
    Phase,
    Wish,
    asked,
)
from domain.node import NodePhase
from domain.operation import Ask
from domain.ownership import claimed
from store import answers, moves
from store.clock import moment
from store.engine import Database, Store, reading, transaction
from store.node_rows import InstanceEventRow, InstanceRow, NodeRow, PlacementRow
from store.patience import Accepted, read_patiently
from store.rows import AnswerRow, now
from store.secrets import Secrets
from store.tail import Tail

LOOK_SECONDS = 1.0
"""How often a follower looks by itself: the most that a lost wake-up can cost."""

PAGE = 500


def tail(database: Database) -> Tail:
    """What wakes those who follow instances. One is enough for a process."""
    return Tail(database, InstanceRow.uid, InstanceRow.events)


class Instances(Store):
    def __init__(self, database: Database, tail: Tail, vault: Secrets) -> None:
        super().__init__(database)
        self._tail = tail
        self._vault = vault

    @transaction
    async def request_create(
        self, session: AsyncSession, spec: InstanceSpec, ask: Ask
    ) -> InstanceView:
        """The instance, the caller's request id and the journal's first line: all or none. An id
        whose instance is over may be used again."""
        if (earlier := await _answered(session, ask)) is not None:
            return await _view(session, earlier)
        latest = await _latest(session, ask.tenant, spec.id)
        if latest is not None and latest.ended is None:
            raise AlreadyExists(
                f"instance {spec.id} already exists and is {latest.phase}",
                subject=spec.id,
                reason="INSTANCE_EXISTS",
                do=f"windlass instance destroy {spec.id}, or give this one another id",
            )
        row = _row(spec, ask, incarnation=latest.incarnation if latest else 0)
        row.spec = self._sealed(session, row.uid, spec).model_dump_json()
        row.heard = await moment(session)
        session.add(row)
        moves.tell(session, row)
        answers.remember(session, ask, row.uid)
        return moves.as_view(row, None)

    def _sealed(self, session: AsyncSession, uid: str, spec: InstanceSpec) -> InstanceSpec:
        """The same without its environment, which may hold secrets and is sealed."""
        if not spec.environment:
            return spec
        reference = environment_of(uid)
        self._vault.add(session, reference, json.dumps(spec.environment).encode())
        return spec.model_copy(update={"environment": (), "sealed": reference})

    @transaction
    async def ask_for(
        self, session: AsyncSession, tenant: str, id: str, call: Call
    ) -> tuple[InstanceView, bool]:
        """Write down what is wished of an instance, and whether that is anything new."""
        row = await _latest(session, tenant, id, held=True)
        if row is None:
            raise moves.unknown(id)
        now_in, wish = Phase(row.phase), WISHES[call]
        to = asked(id, now_in, call)
        if to is now_in and (row.wish == wish or row.ended is not None):
            return await _view(session, row), False
        removes = call is Call.STOP and not moves.spec_of(row).keeps
        row.wish = Wish.DESTROY if removes else wish
        moves.decide(row)
        if call is Call.START:
            row.restarts = 0
            to = to if row.node else Phase.SCHEDULING
        moves.move(session, row, to, f"asked to {call}")
        return await _view(session, row), True

    @transaction
    async def claim(self, session: AsyncSession, tenant: str, id: str, owner: str) -> InstanceView:
        """Write down what an instance was made for, of which nobody said it. Asking again is no
        matter. Conflict: it was made for something else."""
        row = await _latest(session, tenant, id, held=True)
        if row is None:
            raise moves.unknown(id)
        spec = moves.spec_of(row)
        spec = spec.model_copy(update={"owner": claimed(f"instance {id}", spec.owner, owner)})
        row.spec = spec.model_dump_json()
        return await _view(session, row)

    @reading
    async def get(self, session: AsyncSession, tenant: str, id: str) -> InstanceView:
        """The instance that has the id, or had it last."""
        row = await _latest(session, tenant, id)
        if row is None:
            raise moves.unknown(id)
        return await _view(session, row)

    @reading
    async def at(self, session: AsyncSession, uid: InstanceUid) -> InstanceView:
        row = await session.get(InstanceRow, uid)
        if row is None:
            raise moves.unknown(uid)
        return await _view(session, row)

    @reading
    async def page(
        self,
        session: AsyncSession,
        tenant: str,
        *,
        node: str = "",
        everything: bool = False,
        after: str = "",
        size: int = PAGE,
    ) -> list[InstanceView]:
        """Instances by their ids, from behind the id `after`; those that are over only on request,
        and of each id the latest."""
        query = select(InstanceRow).where(InstanceRow.tenant == tenant, InstanceRow.id > after)
        if node:
            query = query.where(InstanceRow.node == node)
        if everything:
            newest = (
                select(InstanceRow.id, func.max(InstanceRow.created).label("created"))
                .where(InstanceRow.tenant == tenant)
                .group_by(InstanceRow.id)
                .subquery()
            )
            query = query.join(
                newest,
                and_(InstanceRow.id == newest.c.id, InstanceRow.created == newest.c.created),
            )
        else:
            query = query.where(InstanceRow.ended.is_(None))
        rows = (await session.scalars(query.order_by(InstanceRow.id).limit(size))).all()
        placed = await moves.placements_of(session, [row.uid for row in rows])
        return [moves.as_view(row, placed.get(row.uid)) for row in rows]

    @reading
    async def leftovers(
        self, session: AsyncSession, uid: InstanceUid
    ) -> list[tuple[str, NodePhase]]:
        """The nodes where a copy was left that is still to be removed, and how they stand."""
        rows = await session.execute(
            select(PlacementRow.node, NodeRow.phase)
            .join(NodeRow, NodeRow.id == PlacementRow.node)
            .where(PlacementRow.uid == uid, PlacementRow.left.is_(True))
            .order_by(PlacementRow.node)
        )
        return [(node, NodePhase(phase)) for node, phase in rows]

    @reading
    async def since(
        self, session: AsyncSession, uid: InstanceUid, after: int
    ) -> Sequence[InstanceEvent]:
        """Up to a page of journal lines with a number greater than `after`."""
        rows = await session.scalars(
            select(InstanceEventRow)
            .where(InstanceEventRow.uid == uid, InstanceEventRow.number > after)
            .order_by(InstanceEventRow.number)
            .limit(PAGE)
        )
        return [
            InstanceEvent(
                number=row.number,
                time=row.time,
                phase=Phase(row.phase),
                says=row.says,
                node=row.node,
                incarnation=row.incarnation,
            )
            for row in rows
        ]

    async def follow(
        self, uid: InstanceUid, *, after: int = 0
    ) -> AsyncGenerator[tuple[InstanceView, Sequence[InstanceEvent]], None]:
        """How it stands, with what happened past `after`; then again whenever anything happens and
        at least once a second, until it is over. A database that does not answer is waited
        for."""
        accepted = Accepted(f"instance {uid}", "windlass instance list")
        with self._tail.watching(uid) as news:
            while True:
                news.clear()  # before reading, so that nothing falls between
                events = await read_patiently(partial(self.since, uid, after), accepted)
                view = await read_patiently(partial(self.at, uid), accepted)  # no older than those
                yield view, events
                if events:
                    after = events[-1].number
                if view.is_over and after >= view.last_event:
                    return
                if not events:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), timeout=LOOK_SECONDS)


def _row(spec: InstanceSpec, ask: Ask, *, incarnation: int) -> InstanceRow:
    moment = now()
    return InstanceRow(
        uid=str(uuid4()),
        tenant=ask.tenant,
        id=spec.id,
        caller=ask.caller,
        spec="",
        phase=Phase.SCHEDULING,
        wish=Wish.RUN,
        says="",
        node="",
        incarnation=incarnation,
        turn=1,
        taken_up=False,
        parked=False,
        evicted=False,
        avoid="",
        has_run=False,
        restarts=0,
        waits_until=None,
        running_since=None,
        used_cpu=0,
        used_memory=0,
        used_disk=0,
        created=moment,
        changed=moment,
        ended=None,
        closed=False,
        heeded=False,
        heard=moment,
        events=0,
    )


async def _answered(session: AsyncSession, ask: Ask) -> InstanceRow | None:
    """The instance that this very request made before, if it is a repeat."""
    if not await answers.is_repeat(session, ask):
        return None
    answer = await session.get(AnswerRow, (ask.tenant, ask.caller, ask.method, ask.key))
    return await session.get(InstanceRow, answer.operation) if answer else None


async def _latest(
    session: AsyncSession, tenant: str, id: str, *, held: bool = False
) -> InstanceRow | None:
    """Who has the id, or had it last; `held` against every other writer."""
    query = (
        select(InstanceRow)
        .where(InstanceRow.tenant == tenant, InstanceRow.id == id)
        .order_by(InstanceRow.ended.is_(None).desc(), InstanceRow.created.desc())
        .limit(1)
    )
    row: InstanceRow | None = await session.scalar(query.with_for_update() if held else query)
    return row


async def _view(session: AsyncSession, row: InstanceRow) -> InstanceView:
    placement = await session.get(PlacementRow, (row.node, row.uid)) if row.node else None
    return moves.as_view(row, placement)
