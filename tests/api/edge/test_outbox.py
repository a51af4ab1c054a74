"""What a stream has still to be told."""

import asyncio

import pytest

from api.edge import outbox
from api.edge.outbox import Batch, Outbox
from domain.errors import Exhausted, Unavailable
from domain.record import Noun
from protos.gen.edge.exec_pb2 import ExecRequest

NOUNS = (Noun.FLAVOR, Noun.APP)


async def test_a_key_is_told_once_and_after_what_it_needs() -> None:
    box = Outbox(NOUNS)
    for noun, key in ((Noun.APP, "a"), (Noun.FLAVOR, "f"), (Noun.APP, "b"), (Noun.APP, "a")):
        box.mark(noun, key)
    assert await box.next() == Batch(noun=Noun.FLAVOR, keys=["f"])
    box.mark(Noun.APP, "a")
    assert await box.next() == Batch(noun=Noun.APP, keys=["a", "b"])
    box.mark(Noun.APP, "a")
    assert await box.next() == Batch(noun=Noun.APP, keys=["a"])


async def test_messages_go_first_and_each_of_them() -> None:
    box = Outbox(NOUNS)
    box.mark(Noun.APP, "a")
    for _ in range(2):
        box.post(ExecRequest(offer="o"))
    assert await box.next() == Batch(messages=[ExecRequest(offer="o")] * 2)


async def test_many_keys_are_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "AT_ONCE", 2)
    box = Outbox(NOUNS)
    for key in "abc":
        box.mark(Noun.APP, key)
    assert [await box.next(), await box.next()] == [
        Batch(noun=Noun.APP, keys=["a", "b"]),
        Batch(noun=Noun.APP, keys=["c"]),
    ]


async def test_that_all_has_been_told_is_told_last() -> None:
    box = Outbox(NOUNS)
    box.conclude()
    box.mark(Noun.APP, "a")
    assert await box.next() == Batch(noun=Noun.APP, keys=["a"])
    assert await box.next() == Batch(everything=True)
    box.mark(Noun.APP, "b")
    assert await box.next() == Batch(noun=Noun.APP, keys=["b"])


async def test_waits_until_there_is_something() -> None:
    box = Outbox(NOUNS)
    waiting = asyncio.ensure_future(box.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    box.mark(Noun.APP, "a")
    assert await waiting == Batch(noun=Noun.APP, keys=["a"])


async def test_who_reads_too_slowly_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_KEYS", 2)
    monkeypatch.setattr(outbox, "MOST_MESSAGES", 1)
    box = Outbox(NOUNS)
    box.post(ExecRequest())
    with pytest.raises(Exhausted):
        box.post(ExecRequest())
    for key in "aab":
        box.mark(Noun.APP, key)
    box.mark(Noun.APP, "c")
    with pytest.raises(Unavailable, match="behind"):
        await box.next()


async def test_what_is_over_is_told_nothing_more() -> None:
    box = Outbox(NOUNS)
    box.mark(Noun.APP, "a")
    box.end()
    assert await box.next() is None
