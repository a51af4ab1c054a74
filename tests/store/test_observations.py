"""Whose turn it is to look, and what is kept of it."""

import asyncio
from datetime import timedelta

import pytest

from domain.errors import Unavailable
from domain.storage_look import Look
from store.engine import Database
from store.observations import Observations
from tests.domain.ceph import seen

LONG, OVER = timedelta(hours=1), timedelta(0)


async def test_one_of_many_gets_the_look(database: Database) -> None:
    observations = Observations(database)
    assert await observations.due("ceph", LONG)
    got = await asyncio.gather(*(observations.claim("ceph", LONG) for _ in range(8)))
    assert got.count(True) == 1
    assert not await observations.due("ceph", LONG)
    assert await observations.due("ceph", OVER)
    assert await observations.claim("ceph", OVER)
    assert await observations.claim("other", LONG)


async def test_the_newest_is_kept_and_trouble_beside_it(database: Database) -> None:
    observations = Observations(database)
    with pytest.raises(Unavailable, match="no worker has looked yet"):
        await observations.newest("ceph")
    await observations.claim("ceph", LONG)
    await observations.failed("ceph", "nobody answers")
    with pytest.raises(Unavailable, match="nobody answers"):
        await observations.newest("ceph")
    now = Look(observation=seen("under-load"))
    await observations.keep("ceph", now)
    before = now.observation.at - timedelta(seconds=1)
    await observations.keep("ceph", Look(observation=seen().model_copy(update={"at": before})))
    newest = await observations.newest("ceph")
    assert (newest.look, newest.every, newest.trouble) == (now, LONG, "")
    await observations.failed("ceph", "nobody answers")
    newest = await observations.newest("ceph")
    assert (newest.look, newest.trouble) == (now, "nobody answers")
