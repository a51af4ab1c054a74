"""Users, tokens, guesses and the audit trail, as the database keeps them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from domain.access import FREE_TRIES, FREE_TRIES_OF_A_PLACE, Principal, Role
from domain.audit import PRUNED, Anchor, Deed, chained
from domain.errors import AlreadyExists, Conflict, NotFound, Unauthenticated
from store.access_rows import AttemptRow, AuditBeginningRow, AuditRow, TokenRow
from store.attempts import Attempts
from store.audit import Audit
from store.engine import Database
from store.passwords import Passwords
from store.rows import now
from store.tokens import PREFIX, Tokens, digest_of
from store.users import Users

HOUR = timedelta(hours=1)
ADA = Principal(name="ada", role=Role.ADMIN)
BOB = Principal(name="bob", role=Role.DEVELOPER, developer="acme")


async def said(database: Database, statement: Any) -> None:
    async with database.session(writes=True) as session:
        await session.execute(statement)


async def test_users_come_once_and_the_first_administrator_only_to_nobody(
    database: Database,
) -> None:
    users = Users(database)
    assert await users.begin("admin", "hash")
    assert not await users.begin("other", "hash")
    await users.add(BOB, "")
    with pytest.raises(AlreadyExists):
        await users.add(BOB, "hash")
    assert [user.principal.name for user in await users.all()] == ["admin", "bob"]
    assert await users.principal("bob") == BOB
    assert await users.lock("bob") is None, "who has no password cannot give the right one"
    with pytest.raises(Conflict):
        await users.disable("admin", disabled=True)
    with pytest.raises(NotFound):
        await users.set_password("nobody", "hash")


async def test_two_administrators_cannot_put_each_other_out(database: Database) -> None:
    users = Users(database)
    names = ("ada", "eve")
    for name in names:
        await users.add(Principal(name=name, role=Role.ADMIN), "hash")
    tries = [users.disable(name, disabled=True) for name in names]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(end, Conflict) for end in ends) == 1
    assert sum(user.disabled for user in await users.all()) == 1


async def test_a_token_ends_in_each_of_the_ways_there_are(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(ADA, "hash")
    await users.add(BOB, "hash")

    async def made(**terms: Any) -> str:
        token, _ = await tokens.issue("bob", **{"lifetime": HOUR, **terms})
        assert token.startswith(PREFIX)
        return digest_of(token)

    async def good(digest: str) -> bool:
        return await tokens.session(digest) is not None

    kept, idle, revoked, expired = [
        await made(label="ci"),
        await made(idle=timedelta(minutes=1)),
        await made(),
        await made(lifetime=timedelta(0)),
    ]
    session = await tokens.session(kept)
    assert session is not None
    assert session.principal == BOB
    assert await good(idle)
    assert await good(revoked)
    assert not await good(expired)
    assert not await good(digest_of("no token"))
    assert await tokens.revoke(revoked) == ("bob", True)
    assert await tokens.revoke(revoked) == ("bob", False), "again is success"
    assert await tokens.revoke(digest_of("no token")) is None
    ended = update(TokenRow).where(TokenRow.digest == idle)
    await said(database, ended.values(ended=now()))
    assert [await good(each) for each in (kept, idle, revoked)] == [True, False, False]
    await users.set_password("bob", "another")
    assert await good(kept), "it did not come of the password"
    await users.disable("bob", disabled=True)
    assert not await good(kept)
    await users.disable("bob", disabled=False)
    assert not await good(kept), "who is let in again needs a new one"


async def test_using_a_token_lets_it_live_on_but_not_for_ever(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(BOB, "hash")
    token, info = await tokens.issue("bob", lifetime=HOUR, idle=timedelta(minutes=50))
    digest = digest_of(token)
    before = await tokens.session(digest)
    assert before is not None
    assert before.expires is not None
    assert before.expires < info.expires
    row = update(TokenRow).where(TokenRow.digest == digest)
    await said(database, row.values(created=now() - HOUR / 2, expires=now() + HOUR / 2))
    await tokens.use(digest)
    after = await tokens.session(digest)
    assert after is not None
    assert after.expires is not None
    assert after.expires <= now() + HOUR / 2
    with pytest.raises(NotFound):
        await tokens.revoke_named(info.id, "ada")
    assert await tokens.revoke_named(info.id, "bob") == digest
    assert await tokens.of("bob") == []


async def test_a_token_gets_no_more_than_the_one_it_was_made_with(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(BOB, "hash")
    parent, made_with = await tokens.issue("bob", lifetime=HOUR, idle=HOUR / 2)
    _, child = await tokens.issue("bob", lifetime=30 * HOUR, label="ci", parent=digest_of(parent))
    assert child.expires == made_with.expires
    short, _ = await tokens.issue("bob", lifetime=HOUR / 3, label="ci", parent=digest_of(parent))
    session = await tokens.session(digest_of(short))
    assert session is not None
    assert session.expires is not None
    assert session.expires < now() + HOUR / 2
    row = update(TokenRow).where(TokenRow.digest != digest_of(parent))
    await said(database, row.values(ended=now() - HOUR))
    assert await tokens.session(digest_of(short)) is None, "it lay unused for too long"


async def test_tokens_are_revoked_with_the_one_they_were_made_with(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(BOB, "hash")

    async def made(parent: str = "") -> str:
        token, _ = await tokens.issue("bob", lifetime=HOUR, label="t", parent=parent)
        return digest_of(token)

    root, robots = await made(), await made()
    child, sister = await made(root), await made(root)
    grandchild = await made(child)
    assert await tokens.revoke(child)
    for digest, good in ((root, True), (sister, True), (child, False), (grandchild, False)):
        assert (await tokens.session(digest) is not None) is good
    for ended in (child, digest_of("no token")):
        with pytest.raises(Unauthenticated) as refused:
            await made(ended)
        assert refused.value.reason == "INVALID_TOKEN"
    await users.set_password("bob", "another hash")
    assert await tokens.session(sister) is None, "what was made then may be in other hands"
    assert await tokens.session(robots) is not None


async def test_nothing_is_made_with_a_token_while_it_is_revoked(database: Database) -> None:
    users, tokens = Users(database), Tokens(database)
    await users.add(BOB, "hash")
    for _ in range(5):
        parent = digest_of((await tokens.issue("bob", lifetime=HOUR))[0])
        making = [tokens.issue("bob", lifetime=HOUR, label="t", parent=parent) for _ in range(4)]
        await asyncio.gather(*making, tokens.revoke(parent), return_exceptions=True)
    assert await tokens.of("bob") == []


async def test_guesses_are_counted_where_they_are_made(database: Database) -> None:
    attempts = Attempts(database)
    for _ in range(FREE_TRIES):
        assert not await attempts.begin("ada", "10.0.0.1")
    assert await attempts.begin("ada", "10.0.0.1")
    assert not await attempts.begin("ada", "10.0.0.2"), "nobody is locked out from elsewhere"
    assert not await attempts.begin("bob", "10.0.0.1")
    await said(database, update(AttemptRow).values(last=now() - timedelta(seconds=5)))
    assert not await attempts.begin("ada", "10.0.0.1"), "the wait is over"
    again = await attempts.begin("ada", "10.0.0.1")
    assert again is not None
    assert not again.is_first, "who guesses on was told before"
    await attempts.succeed("ada", "10.0.0.1")
    assert not await attempts.begin("ada", "10.0.0.1")
    for _ in range(FREE_TRIES - 1):
        assert not await attempts.begin("ada", "10.0.0.1")
    anew = await attempts.begin("ada", "10.0.0.1")
    assert anew is not None
    assert anew.is_first


async def test_many_guesses_at_once_are_no_way_around_the_count(database: Database) -> None:
    attempts = Attempts(database)
    tries = [attempts.begin(f"user-{n}", "10.0.0.1") for n in range(FREE_TRIES_OF_A_PLACE + 5)]
    let = [wait for wait in await asyncio.gather(*tries) if not wait]
    assert len(let) == FREE_TRIES_OF_A_PLACE


async def test_passwords_are_kept_as_hashes_alone() -> None:
    passwords = Passwords()
    kept = await passwords.hashed("correct horse")
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert "correct horse" not in kept
    assert await passwords.agrees("correct horse", kept)
    assert not await passwords.agrees("wrong horse", kept)
    assert not await passwords.agrees("", "")
    assert not await passwords.agrees("correct horse", "no hash at all")
    assert not passwords.is_dated(kept)
    passwords.close()


async def test_the_trail_is_whole_and_only_grows(database: Database) -> None:
    audit = Audit(database)
    deeds = [
        Deed(time=now(), user=f"user-{n % 2}", method="a/B", code="OK", subject=str(n))
        for n in range(20)
    ]
    await asyncio.gather(*(audit.write(deed) for deed in deeds))
    lines = await audit.list(after=0, most=100)
    assert [line.number for line in lines] == list(range(1, 21))
    assert sorted(line.deed.subject for line in lines) == sorted(deed.subject for deed in deeds)
    assert [line.number for line in await audit.list(after=18, most=100)] == [19, 20]
    assert [line.number for line in await audit.list(after=0, most=2, latest=True)] == [20, 19]
    assert {line.deed.user for line in await audit.list(after=0, most=9, user="user-1")} == {
        "user-1"
    }
    begun = await audit.write(Deed(time=now(), user="eve", method="a/B"))
    [line] = await audit.list(after=20, most=9)
    assert (line.number, line.deed.code) == (begun, "")
    end = await audit.write(Deed(time=now(), user="eve", method="a/B", code="OK", began=begun))
    for told in (
        await audit.list(after=20, most=9),
        await audit.list(after=0, most=1, latest=True),
        await audit.list(after=0, most=9, user="eve"),
    ):
        assert [(line.number, line.deed.code) for line in told] == [(end, "OK")]
    whole = await audit.verify()
    assert (whole.lines, whole.broken) == (22, 0)
    for statement in ("UPDATE audit SET line = ''", "DELETE FROM audit"):
        with pytest.raises(DBAPIError):
            await said(database, text(statement))
    off, on = "ALTER TABLE audit DISABLE TRIGGER USER", "ALTER TABLE audit ENABLE TRIGGER USER"
    await said(database, text("DROP TRIGGER audit_no_update" if database.is_sqlite else off))
    await said(database, text("UPDATE audit SET began = NULL WHERE number = 22"))
    hidden = await audit.verify()
    await said(database, text("UPDATE audit SET line = '{}' WHERE number = 7"))
    if not database.is_sqlite:  # the next test has the same tables
        await said(database, text(on))
    assert hidden.broken == 22
    assert (await audit.verify()).broken == 7


@asynccontextmanager
async def unguarded(database: Database) -> AsyncIterator[None]:
    """Somebody gets around what keeps the trail as it is."""
    if database.is_sqlite:  # a file of this test's own
        for word in ("update", "delete"):
            await said(database, text(f"DROP TRIGGER audit_no_{word}"))
        yield
        return
    await said(database, text("ALTER TABLE audit DISABLE TRIGGER USER"))
    try:
        yield
    finally:  # the next test has the same tables
        await said(database, text("ALTER TABLE audit ENABLE TRIGGER USER"))


async def test_a_row_says_nothing_that_its_line_does_not(database: Database) -> None:
    audit = Audit(database)
    for name in ("ada", "bob", "eve"):
        await audit.write(Deed(time=now(), user=name, method="a/B", code="OK"))
    assert (await audit.verify()).broken == 0
    async with unguarded(database):
        row = update(AuditRow).where(AuditRow.number == 2)
        await said(database, row.values(user_name="mallory"))
        found = [await audit.verify()]
        await said(database, row.values(user_name="bob"))
        found.append(await audit.verify())
        await said(database, row.values(time=now() - HOUR))
        found.append(await audit.verify())
        line = "no deed"
        first = (await audit.list(after=0, most=1))[0].deed.model_dump_json(exclude_defaults=True)
        chain = chained(chained("", 1, first), 2, line)
        await said(database, row.values(line=line, chain=chain))
        found.append(await audit.verify())
    assert [verdict.broken for verdict in found] == [2, 0, 2, 2]


async def test_who_kept_an_anchor_sees_a_trail_that_was_made_anew(database: Database) -> None:
    audit = Audit(database)

    async def write(*names: str) -> None:
        for name in names:
            await audit.write(Deed(time=now(), user=name, method="a/B", code="OK"))

    await write("ada", "eve")
    told = await audit.verify()
    anchor = Anchor(number=told.lines, chain=told.chain)
    await write("bob")
    assert (await audit.verify(anchor)).lost == 0
    if not database.is_sqlite:
        with pytest.raises(DBAPIError):
            await said(database, text("TRUNCATE audit"))
    async with unguarded(database):
        await said(database, text("DELETE FROM audit"))
    await write("ada")
    cut = await audit.verify(anchor)
    assert (cut.lines, cut.broken, cut.lost) == (1, 0, 2)
    await write("bob", "bob")
    anew = await audit.verify(anchor)
    assert (anew.lines, anew.broken, anew.lost) == (3, 0, 2)


async def grown(database: Database, old: int, new: int) -> Audit:
    """A trail with so many old lines, and then so many new ones."""
    audit = Audit(database)
    for number in range(old + new):
        time = now() - (240 if number < old else 0) * HOUR
        await audit.write(Deed(time=time, user="ada", method="a/B", subject=str(number)))
    return audit


async def test_a12_old_lines_are_removed_and_the_rest_is_still_verified(
    database: Database,
) -> None:
    audit = await grown(database, 10, 5)
    told = await audit.verify()
    kept = Anchor(number=told.lines, chain=told.chain)
    begun = await audit.prune(now() - HOUR, "uid 0")
    assert begun is not None
    assert begun.number == 10
    lines = await audit.list(after=0, most=100)
    assert [line.number for line in lines] == list(range(11, 17))
    assert (lines[-1].deed.method, lines[-1].deed.subject) == (PRUNED, str(begun))
    whole = await audit.verify(kept)
    assert (whole.first, whole.lines, whole.broken, whole.lost) == (11, 16, 0, 0)
    assert (await audit.verify(begun)).lost == 0
    assert (await audit.verify(Anchor(number=3, chain="0" * 64))).lost == 3
    assert await audit.write(Deed(time=now(), user="eve", method="a/B")) == 17
    assert await audit.prune(now() - HOUR, "uid 0") is None
    for statement in (
        "DELETE FROM audit WHERE number = 12",
        "DELETE FROM audit_beginnings",
        "UPDATE audit_beginnings SET number = 12",
        "UPDATE audit SET line = '' WHERE number = 12",
    ):
        with pytest.raises(DBAPIError):
            await said(database, text(statement))
    whole = await audit.verify()
    assert (whole.first, whole.lines, whole.broken) == (11, 17, 0)


async def test_a12_numbers_go_on_when_every_line_is_old(database: Database) -> None:
    audit = await grown(database, 3, 0)
    for number in (3, 4):  # the second time, what the first wrote
        begun = await audit.prune(now(), "uid 0")
        assert begun is not None
        assert begun.number == number
        whole = await audit.verify()
        assert (whole.first, whole.lines, whole.broken) == (number + 1, number + 1, 0)


async def test_a12_many_old_lines_are_removed_while_others_are_written(
    database: Database,
) -> None:
    audit = Audit(database)
    deed = Deed(time=now() - 240 * HOUR, user="ada", method="a/B")
    await asyncio.gather(*(audit.write(deed) for _ in range(2100)))
    fresh = [audit.write(Deed(time=now(), user="eve", method="a/B")) for _ in range(50)]
    pruning = asyncio.create_task(audit.prune(now() - HOUR, "uid 0"))
    await asyncio.gather(*fresh)
    begun = await pruning
    assert begun is not None
    assert begun.number == 2100
    whole = await audit.verify()
    assert (whole.first, whole.lines, whole.broken) == (2101, 2151, 0)
    async with database.session(writes=False) as session:
        assert await session.scalar(select(func.count()).select_from(AuditRow)) == 51


async def test_a12_nothing_is_removed_from_a_trail_that_is_not_whole(database: Database) -> None:
    audit = await grown(database, 3, 1)
    async with unguarded(database):
        await said(database, update(AuditRow).where(AuditRow.number == 2).values(line="{}"))
    with pytest.raises(Conflict) as refused:
        await audit.prune(now() - HOUR, "uid 0")
    assert refused.value.reason == "AUDIT_BROKEN"
    async with database.session(writes=False) as session:
        assert await session.scalar(select(func.count()).select_from(AuditRow)) == 4


async def test_a12_a_beginning_that_no_line_tells_of_is_seen(database: Database) -> None:
    audit = await grown(database, 3, 2)
    async with database.session(writes=True) as session:
        chain = await session.scalar(select(AuditRow.chain).where(AuditRow.number == 3))
        beginning = {"number": 3, "chain": chain}
        await session.execute(insert(AuditBeginningRow).values(beginning))
        await session.execute(text("DELETE FROM audit WHERE number <= 3"))
    assert (await audit.verify()).broken == 4
