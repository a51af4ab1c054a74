"""The shelf: records as bytes under their keys, and the rules about who names whom.

A rule holds under any number of callers: whoever writes a record holds what it names, so that it
stays until the writer is done; whoever deletes a record holds it against all who would name it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from domain.operation import Ask
from domain.record import USES, Link, Need, Noun, Record, Use
from domain.refusal import Refusal, refuse_if
from store import answers, changes
from store.engine import Database, Store, reading, transaction
from store.rows import LinkRow, RecordRow, table_of


class Kept(NamedTuple):
    """A record as it lies on the shelf."""

    key: str
    value: bytes


class Shelf(Store):
    """Records for which these rules are enough."""

    def __init__(self, database: Database, *, strict: bool = False) -> None:
        super().__init__(database)
        self._strict = strict

    @transaction
    async def create(
        self, session: AsyncSession, record: Record, needs: Sequence[Need], ask: Ask
    ) -> None:
        """Put a new record there. What it needs is looked for before its key."""
        if not await answers.is_repeat(session, ask):
            await add(session, record, needs, strict=self._strict)
            answers.remember(session, ask)

    @transaction
    async def change(
        self,
        session: AsyncSession,
        noun: Noun,
        key: str,
        changed: Callable[[bytes], Record],
        ask: Ask,
    ) -> None:
        """Put in a record's place what `changed` makes of it; it may refuse, and may be asked
        again. A change that changes nothing is not written."""
        if await answers.is_repeat(session, ask):
            return
        before = await held(session, noun, key)
        await replace(session, before, changed(before.value))
        answers.remember(session, ask)

    @transaction
    async def put(
        self,
        session: AsyncSession,
        noun: Noun,
        key: str,
        changed: Callable[[bytes | None], Record],
        ask: Ask,
    ) -> None:
        """Put there what `changed` makes of what is there, or of nothing."""
        if await answers.is_repeat(session, ask):
            return
        before = await find(session, noun, key)
        if before is None:
            await add(session, changed(None), [], strict=False)
        else:
            await replace(session, before, changed(before.value))
        answers.remember(session, ask)

    @transaction
    async def delete(self, session: AsyncSession, noun: Noun, key: str, ask: Ask) -> None:
        """Take a record away that nobody needs, and with it all that yield and that nobody needs
        either."""
        if await answers.is_repeat(session, ask):
            return
        there = await lock_for_good(session, noun, key)
        giving_way = []
        for use in USES.get(noun, ()):
            refuse_if(await self._is_needed(session, use, noun, key), use.refusal)
            giving_way += [(use.by, named) for named in await yielding(session, use.by, noun, key)]
        refuse_if(not there, Refusal.KEY_UNKNOWN)
        for by, named in giving_way:
            await lock_for_good(session, by, named)
            if not any([await self._is_needed(session, use, by, named) for use in USES[by]]):
                await remove(session, by, named)
        await remove(session, noun, key)
        answers.remember(session, ask)

    @transaction
    async def drop(self, session: AsyncSession, noun: Noun, key: str) -> None:
        """Take a record away that no rule is about. There being none is success."""
        await remove(session, noun, key)

    @reading
    async def get(self, session: AsyncSession, noun: Noun, key: str) -> bytes | None:
        value: bytes | None = await session.scalar(_one(RecordRow.value, noun, key))
        return value

    @reading
    async def several(
        self, session: AsyncSession, noun: Noun, keys: Sequence[str]
    ) -> dict[str, bytes]:
        """Those that there are of some records, by their keys."""
        rows = await session.execute(
            select(RecordRow.key, RecordRow.value).where(
                RecordRow.noun == noun, RecordRow.key.in_(keys)
            )
        )
        return {row.key: row.value for row in rows}

    @reading
    async def page(
        self, session: AsyncSession, noun: Noun, after: str, most: int
    ) -> Sequence[Kept]:
        """Records in the order of their keys, past one of them."""
        rows = await session.execute(
            select(RecordRow.key, RecordRow.value)
            .where(RecordRow.noun == noun, RecordRow.key > after)
            .order_by(RecordRow.key)
            .limit(most)
        )
        return [Kept(row.key, row.value) for row in rows]

    async def _is_needed(self, session: AsyncSession, use: Use, noun: Noun, key: str) -> bool:
        if use.strict and not self._strict:
            return False
        return await is_named(session, use.by, noun, key)


class Held(NamedTuple):
    """A record that nobody else writes until the transaction is over."""

    noun: Noun
    key: str
    value: bytes


async def add(
    session: AsyncSession, record: Record, needs: Sequence[Need], *, strict: bool
) -> None:
    """Put a new record onto the shelf, if everything it needs is there and its key is free."""
    there = await hold_named(session, record.links)
    refuse_lacking([need for need in needs if not need.strict], there)
    taken = await session.scalar(_one(RecordRow.key, record.noun, record.key))
    refuse_if(taken is not None, Refusal.KEY_TAKEN)
    if strict:
        refuse_lacking([need for need in needs if need.strict], there)
    await _insert(session, record)


async def _insert(session: AsyncSession, record: Record) -> None:
    row = {"noun": record.noun, "key": record.key, "value": record.value, "facts": record.facts}
    await session.execute(insert(table_of(RecordRow)).values(row))
    await _link(session, record)
    await changes.note(session, record.noun, [record.key])


async def held(session: AsyncSession, noun: Noun, key: str) -> Held:
    """A record, held against other writers. Others may go on naming it."""
    found = await find(session, noun, key)
    if found is None:
        raise Refusal.KEY_UNKNOWN()
    return found


async def find(session: AsyncSession, noun: Noun, key: str) -> Held | None:
    """The same, if there is one."""
    value = await session.scalar(_one(RecordRow.value, noun, key).with_for_update(key_share=True))
    return None if value is None else Held(noun, key, value)


async def hold_named(session: AsyncSession, links: Iterable[Link]) -> frozenset[tuple[str, str]]:
    """Keep what is named from being deleted meanwhile, and tell what of it there is."""
    named = sorted({(str(link.to), link.key) for link in links})
    if not named:
        return frozenset()
    rows = await session.execute(
        select(RecordRow.noun, RecordRow.key)
        .where(_any_of(named))
        .with_for_update(read=True, key_share=True)
    )
    return frozenset((row.noun, row.key) for row in rows)


async def read_held(session: AsyncSession, links: Iterable[Link]) -> dict[tuple[str, str], str]:
    """The facts of what is named, by noun and key, kept from being deleted meanwhile."""
    named = sorted({(str(link.to), link.key) for link in links})
    if not named:
        return {}
    rows = await session.execute(
        select(RecordRow.noun, RecordRow.key, RecordRow.facts)
        .where(_any_of(named))
        .with_for_update(read=True, key_share=True)
    )
    return {(row.noun, row.key): row.facts for row in rows}


def _any_of(named: Iterable[tuple[str, str]]) -> ColumnElement[bool]:
    """One by one, since SQLite looks at every record to find pairs among pairs."""
    return or_(*(and_(RecordRow.noun == noun, RecordRow.key == key) for noun, key in named))


async def keep(session: AsyncSession, record: Record) -> None:
    """Put a record there, in the place of what may be there."""
    before = await find(session, record.noun, record.key)
    if before is None:
        await _insert(session, record)
    else:
        await replace(session, before, record)


def refuse_lacking(needs: Iterable[Need], there: frozenset[tuple[str, str]]) -> None:
    """Refuse in the order of the needs."""
    for need in needs:
        refuse_if((str(need.to), need.key) not in there, need.refusal, name=need.name)


async def replace(session: AsyncSession, before: Held, record: Record) -> None:
    """Put another record in the place of one that is held."""
    if record.value == before.value:
        return
    await session.execute(
        update(RecordRow)
        .where(RecordRow.noun == record.noun, RecordRow.key == record.key)
        .values(value=record.value, facts=record.facts)
    )
    await _unlink(session, record.noun, record.key)
    await _link(session, record)
    await changes.note(session, record.noun, [record.key])


async def remove(session: AsyncSession, noun: Noun, key: str) -> None:
    """Take a record off the shelf. There being none is success."""
    await session.execute(delete(RecordRow).where(RecordRow.noun == noun, RecordRow.key == key))
    await _unlink(session, noun, key)
    await changes.note(session, noun, [key])


async def yielding(session: AsyncSession, by: Noun, noun: Noun, key: str) -> Sequence[str]:
    """Who names a record and yields."""
    found = select(LinkRow.key).where(*_names(by, noun, key), LinkRow.yields)
    return (await session.scalars(found.order_by(LinkRow.key))).all()


async def alone(session: AsyncSession, word: str) -> None:
    """Until the transaction is over, be the only one who has said this word: for rules about what
    has no row that could be held. On SQLite every writer is alone."""
    if session.get_bind().dialect.name == "postgresql":
        await session.execute(select(func.pg_advisory_xact_lock(func.hashtext(word))))


async def is_named(session: AsyncSession, by: Noun, noun: Noun, key: str) -> bool:
    """Whether a record is named by one of this noun that does not yield."""
    naming = exists().where(*_names(by, noun, key), LinkRow.yields.is_(False))
    return bool(await session.scalar(select(naming)))


async def lock_for_good(session: AsyncSession, noun: Noun, key: str) -> bool:
    """Hold a record against all who write or name it. Whether there is one."""
    return await session.scalar(_one(RecordRow.key, noun, key).with_for_update()) is not None


async def _link(session: AsyncSession, record: Record) -> None:
    rows = [
        {
            "noun": record.noun,
            "key": record.key,
            "target_noun": link.to,
            "target_key": link.key,
            "yields": link.yields,
        }
        for link in record.links
    ]
    if rows:
        await session.execute(insert(table_of(LinkRow)), rows)


async def _unlink(session: AsyncSession, noun: Noun, key: str) -> None:
    await session.execute(delete(LinkRow).where(LinkRow.noun == noun, LinkRow.key == key))


def _names(by: Noun, noun: Noun, key: str) -> tuple[ColumnElement[bool], ...]:
    return (LinkRow.noun == by, LinkRow.target_noun == noun, LinkRow.target_key == key)


def _one(column: Any, noun: Noun, key: str) -> Select[Any]:
    return select(column).where(RecordRow.noun == noun, RecordRow.key == key)
