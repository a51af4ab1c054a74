"""The window onto the fleet: pods, images, events and logs as the nodes reported them.

What a node tells is taken in its order and once, by the number it was given there; so a node that
got no answer tells it again. Followers of events go by transactions as followers of changes do (see
`store/changes.py`)."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import lru_cache

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, text, true, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from domain.happening import SECOND_NS, Happening, Heard, Place
from domain.logline import Chunk
from domain.node import AWAY
from domain.pod import TENANT, Image, Pod, PodState
from domain.report import ImageGone, LogPiece, Report, Told
from domain.window import PAGE
from store.clock import moment
from store.engine import Database, Store, reading, transaction
from store.node_rows import NodeRow
from store.pulse import Pulse
from store.rows import now, table_of
from store.visibility import horizon
from store.window_rows import HappeningRow, ImageRow, LogRow, PodRow, ReporterRow

CHUNKS = 64
"""How many pieces of a log are read at once."""

LAST_CHUNKS = 8
"""As many of its end: whoever wants the last lines seldom wants more."""

READ = 20_000
"""How many pods are kept as they were read last: most of them have not changed since."""

_ERA = text("pg_current_xact_id()::text::bigint")


def _away() -> ColumnElement[bool]:
    return NodeRow.phase.in_(AWAY)


@lru_cache(maxsize=READ)
def _pod(document: str, away: str) -> Pod:
    """The pod, as it is shown while its node is away in this way, if it is."""
    return _pod(document, "").on_node_away(away) if away else Pod.model_validate_json(document)


class FleetWindow(Store):
    """Implements `domain/window.py`, and takes the reports that it is made of."""

    def __init__(self, database: Database, *, log_bytes: int) -> None:
        super().__init__(database)
        self._log_bytes = log_bytes
        self._pulse = Pulse(self._heads)
        self._looks: dict[tuple[Place, int, int], asyncio.Future[Sequence[Heard]]] = {}

    @transaction
    async def take(self, session: AsyncSession, report: Report) -> int:
        """Take what is new in a report. The answer is the number up to which all was taken."""
        reporter = await session.get(ReporterRow, report.node, with_for_update=True)
        if reporter is None:
            reporter = ReporterRow(node=report.node, epoch=report.epoch, taken=0)
            session.add(reporter)
            await session.flush()  # of two at once the second is run again
        if reporter.epoch != report.epoch:
            await self._begin_anew(session, report.node)
            reporter.epoch, reporter.taken = report.epoch, 0
        for item in report.items:
            if item.number > reporter.taken:
                await self._take(session, item.what, report.node)
                reporter.taken = item.number
        return reporter.taken

    async def _begin_anew(self, session: AsyncSession, node: str) -> None:
        """The node has forgotten everything: its images, which it tells again, and its pods, which
        are gone, since an agent removes what it does not know."""
        await session.execute(delete(ImageRow).where(ImageRow.node == node))
        there = (PodRow.node == node) & PodRow.garbage.is_(None)
        moment = now()
        for row in await session.scalars(select(PodRow).where(there)):
            gone = {"state": PodState.GARBAGE, "marked_ns": int(moment.timestamp()) * SECOND_NS}
            row.document = _pod(row.document, "").model_copy(update=gone).model_dump_json()
            row.state, row.garbage = PodState.GARBAGE, moment

    async def _take(self, session: AsyncSession, what: Told, node: str) -> None:
        match what:
            case Pod():
                gone = now() if what.state is PodState.GARBAGE else None
                tenant, document = what.annotation(TENANT), what.model_dump_json()
                row = PodRow(id=what.id, node=node, tenant=tenant, state=what.state, garbage=gone)
                row.document = document
                await session.merge(row)
            case Image():
                document = what.model_dump_json()
                await session.merge(ImageRow(node=node, id=what.id, document=document))
            case ImageGone():
                there = (ImageRow.node == node) & (ImageRow.id == what.id)
                await session.execute(delete(ImageRow).where(there))
            case Happening():
                era = 0 if self._database.is_sqlite else _ERA
                values = {"era": era, "node": node, "time_ns": what.time_ns}
                values["document"] = what.model_dump_json()
                await session.execute(insert(table_of(HappeningRow)).values(values).inline())
            case LogPiece():
                await self._take_lines(session, what)

    async def _take_lines(self, session: AsyncSession, piece: LogPiece) -> None:
        """The oldest pieces go once an app has written more than is kept of it. One that its node
        dropped before it could tell it comes empty."""
        if not piece.chunk.lines:
            return
        place = (LogRow.pod == piece.pod) & (LogRow.app == piece.app)
        at = select(LogRow.number).where(place, LogRow.position == piece.chunk.offset)
        if await session.scalar(at):  # the node forgot that it had told
            return
        old = LogRow.position + func.length(LogRow.lines) <= piece.chunk.end - self._log_bytes
        await session.execute(delete(LogRow).where(place, old))
        row = {"position": piece.chunk.offset, "lines": piece.chunk.lines}
        written = insert(table_of(LogRow)).values(pod=piece.pod, app=piece.app, **row)
        await session.execute(written.inline())

    @reading
    async def pods(
        self, session: AsyncSession, *, prefix: str = "", node: str = "", tenant: str = ""
    ) -> Sequence[Pod]:
        """Those on nodes that are away are shown as such."""
        chosen = select(PodRow.document, PodRow.node).order_by(PodRow.id)
        if prefix:
            chosen = chosen.where(PodRow.id >= prefix, PodRow.id < prefix + "g")  # past any hex
        if node:
            chosen = chosen.where(PodRow.node == node)
        if tenant:
            chosen = chosen.where(PodRow.tenant == tenant)
        gone = await session.execute(select(NodeRow.id, NodeRow.phase).where(_away()))
        away = dict(gone.all())
        return [_pod(document, away.get(on, "")) for document, on in await session.execute(chosen)]

    @reading
    async def images(self, session: AsyncSession, *, node: str = "") -> Sequence[Image]:
        chosen = select(ImageRow.document).order_by(ImageRow.id, ImageRow.node)
        if node:
            chosen = chosen.where(ImageRow.node == node)
        found = [Image.model_validate_json(each) for each in await session.scalars(chosen)]
        once = {image.id: image for image in reversed(found)}
        return sorted(once.values(), key=lambda image: (image.name, image.version, image.id))

    async def happened(self, after: Place, *, since_ns: int = 0) -> Sequence[Heard]:
        """Those who are at the same place, with the same news, share one look."""
        key = (after, since_ns, self._pulse.turn)
        if (look := self._looks.get(key)) is None:
            look = self._looks[key] = asyncio.ensure_future(self._happened(after, since_ns))
            look.add_done_callback(lambda _: self._looks.pop(key, None))
        return await asyncio.shield(look)

    @reading
    async def _happened(
        self, session: AsyncSession, after: Place, since_ns: int
    ) -> Sequence[Heard]:
        over = await self._over(session)
        past = tuple_(HappeningRow.era, HappeningRow.number) > tuple_(after.era, after.number)
        rows = await session.scalars(
            select(HappeningRow)
            .where(past, over, HappeningRow.time_ns > since_ns)
            .order_by(HappeningRow.era, HappeningRow.number)
            .limit(PAGE)
        )
        return [
            Heard(
                happening=Happening.model_validate_json(row.document),
                place=Place(era=row.era, number=row.number),
            )
            for row in rows
        ]

    @reading
    async def now(self, session: AsyncSession) -> Place:
        over = await self._over(session)
        last = await session.scalar(
            select(HappeningRow)
            .where(over)
            .order_by(HappeningRow.era.desc(), HappeningRow.number.desc())
            .limit(1)
        )
        return Place(era=last.era, number=last.number) if last else Place()

    @reading
    async def log(self, session: AsyncSession, pod: str, app: str, after: int) -> Sequence[Chunk]:
        rows = await session.scalars(
            select(LogRow)
            .where(LogRow.pod == pod, LogRow.app == app, LogRow.position >= after)
            .order_by(LogRow.position)
            .limit(CHUNKS)
        )
        return [Chunk(offset=row.position, lines=row.lines) for row in rows]

    @reading
    async def log_end(
        self, session: AsyncSession, pod: str, app: str, before: int | None
    ) -> Sequence[Chunk]:
        query = select(LogRow).where(LogRow.pod == pod, LogRow.app == app)
        if before is not None:
            query = query.where(LogRow.position < before)
        rows = await session.scalars(query.order_by(LogRow.position.desc()).limit(LAST_CHUNKS))
        return [Chunk(offset=row.position, lines=row.lines) for row in reversed(rows.all())]

    def watching(self) -> AbstractContextManager[asyncio.Event]:
        return self._pulse.watching()

    @transaction
    async def forget(self, session: AsyncSession, older_than: timedelta) -> None:
        """Drop records of pods that are long gone, with their logs, and old events; and all that
        was told by nodes which are away for as long, of which nobody will say how it ended."""
        edge, lost = now() - older_than, await moment(session) - older_than
        away = select(NodeRow.id).where(_away(), NodeRow.heard < lost)
        gone = or_(PodRow.garbage < edge, PodRow.node.in_(away))
        await session.execute(delete(LogRow).where(LogRow.pod.in_(select(PodRow.id).where(gone))))
        await session.execute(delete(PodRow).where(gone))
        await session.execute(delete(ImageRow).where(ImageRow.node.in_(away)))
        edge_ns = int(edge.timestamp()) * SECOND_NS
        await session.execute(delete(HappeningRow).where(HappeningRow.time_ns < edge_ns))

    async def close(self) -> None:
        await self._pulse.close()

    async def _over(self, session: AsyncSession) -> ColumnElement[bool]:
        """What may be shown already; asked before what is shown by it."""
        return true() if self._database.is_sqlite else HappeningRow.era < await horizon(session)

    @reading
    async def _heads(self, session: AsyncSession) -> tuple[int, int]:
        """How far happenings and logs have come."""
        happenings = select(func.max(HappeningRow.number)).scalar_subquery()
        logs = select(func.max(LogRow.number)).scalar_subquery()
        row = (await session.execute(select(happenings, logs))).one()
        return row[0] or 0, row[1] or 0
