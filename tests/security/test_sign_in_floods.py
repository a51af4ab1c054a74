"""Guessing passwords and flooding sign-in: what attackers get, and what others keep."""

import asyncio
import os
import threading
from datetime import timedelta

import pytest
from sqlalchemy import event, update

from api.asking import arrive
from api.sign_in import SignIn, Terms
from api.sign_in_queue import SignInQueue, network_of
from api.token_bucket import Buckets, Rate
from domain.access import FREE_TRIES_OF_AN_ACCOUNT, LONGEST_WAIT_OF_AN_ACCOUNT, Principal, Role
from domain.errors import Exhausted, Unauthenticated
from store.access_rows import AttemptRow
from store.attempts import Attempts
from store.engine import Database
from store.passwords import NICE, Passwords
from store.rows import now
from store.tokens import Tokens
from store.users import Users
from tests.support.load import limit
from tests.support.passwords import PASSWORD, WRONG

HOUR = timedelta(hours=1)
HOME = "192.0.2.7"


@pytest.fixture
async def sign_in(database: Database):  # type: ignore[no-untyped-def]
    """Signing in as ada, who did so at home before."""
    users, tokens, passwords = Users(database), Tokens(database), Passwords()
    await users.add(Principal(name="ada", role=Role.ADMIN), await passwords.hashed(PASSWORD))
    await tokens.issue("ada", lifetime=HOUR, source=HOME)
    yield SignIn(users, tokens, Attempts(database), passwords, Terms(HOUR, HOUR))
    passwords.close()


async def tried(sign_in: SignIn, where: str, password: str = WRONG) -> str:
    """What comes of a try: a reason, or nothing if it was the password."""
    arrive("a.B/C", ())
    try:
        await sign_in.sign_in("ada", password, where)
    except (Exhausted, Unauthenticated) as error:
        return error.reason
    return ""


async def test_guessing_from_many_addresses_is_slowed_by_the_account(sign_in: SignIn) -> None:
    found = [await tried(sign_in, f"198.51.{number}.1") for number in range(60)]
    assert found[:FREE_TRIES_OF_AN_ACCOUNT] == ["SIGN_IN_FAILED"] * FREE_TRIES_OF_AN_ACCOUNT
    assert found.count("SIGN_IN_FAILED") < 40
    assert "SIGN_IN_THROTTLED" in found
    assert await tried(sign_in, HOME, PASSWORD) == "", "where ada has signed in she still does"


async def test_nobody_is_locked_out_for_good(sign_in: SignIn, database: Database) -> None:
    for number in range(FREE_TRIES_OF_AN_ACCOUNT):
        await tried(sign_in, f"198.51.{number}.1")
    async with database.session(writes=True) as session:
        past = now() - LONGEST_WAIT_OF_AN_ACCOUNT - timedelta(seconds=1)
        await session.execute(update(AttemptRow).values(failures=10_000, last=past))
    assert await tried(sign_in, "203.0.113.9", PASSWORD) == ""


async def test_a_try_that_has_to_wait_writes_nothing(sign_in: SignIn, database: Database) -> None:
    while await tried(sign_in, "198.51.100.1") != "SIGN_IN_THROTTLED":
        pass
    begun: list[bool] = []

    def begins(connection: object) -> None:
        options = connection.get_execution_options()  # type: ignore[attr-defined]
        begun.append(options["writes"])

    event.listen(database.engine.sync_engine, "begin", begins)
    async with database.session(writes=True) as session:  # so that a slow machine is no help
        await session.execute(update(AttemptRow).values(failures=60, last=now()))
    await tried(sign_in, "198.51.100.1")  # that it waits is written down once
    begun.clear()
    found = {await tried(sign_in, "198.51.100.1") for _ in range(50)}
    event.remove(database.engine.sync_engine, "begin", begins)
    assert found == {"SIGN_IN_THROTTLED"}
    assert not any(begun)


def test_addresses_are_counted_to_networks() -> None:
    assert network_of("192.0.2.77") == "192.0.2.0/24"
    assert network_of("2001:db8:1:2::/64") == "2001:db8:1::/48"
    assert network_of("elsewhere") == "elsewhere"


class Line:
    """A queue with one turn, which is taken, and those who wait in it."""

    def __init__(self, waiting: int = 256) -> None:
        self.queue = SignInQueue(1, waiting)
        self.served: list[str] = []
        self.sent_away: list[str] = []
        self.ahead = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, address: str, *, known: bool = False) -> None:
        self.tasks.append(asyncio.create_task(self._wait(address, known=known)))
        await asyncio.sleep(0)

    async def _wait(self, address: str, *, known: bool) -> None:
        try:
            async with self.queue.turn(address, known=known):
                if not self.ahead.is_set():
                    await self.ahead.wait()
                self.served.append(address)
        except Exhausted:
            self.sent_away.append(address)

    async def go(self) -> None:
        self.ahead.set()
        async with limit(30):
            await asyncio.gather(*self.tasks)


async def test_a_flood_of_one_network_does_not_keep_others_waiting() -> None:
    line = Line()
    for number in range(200):
        await line.come(f"198.51.100.{number}")
    await line.come("203.0.113.5")
    await line.go()
    assert line.served.index("203.0.113.5") <= 3


async def test_a_flood_of_many_networks_does_not_keep_out_who_is_known() -> None:
    line = Line(waiting=64)
    for number in range(2000):
        await line.come(f"10.{number // 250}.{number % 250}.1")
    await line.come(HOME, known=True)
    await line.go()
    assert line.served.index(HOME) <= 3
    assert len(line.sent_away) == 2000 - 64 - 1


async def test_a_full_queue_sends_away_those_of_whom_there_are_most() -> None:
    line = Line(waiting=16)
    for number in range(50):
        await line.come(f"198.51.100.{number % 5}")
    await line.come("203.0.113.5")
    await line.go()
    assert "203.0.113.5" in line.served
    assert set(map(network_of, line.sent_away)) == {"198.51.100.0/24"}


async def test_who_hangs_up_gives_the_turn_back() -> None:
    line = Line()
    for number in range(5):
        await line.come(f"198.51.100.{number}")
    for task in line.tasks[1:4]:
        task.cancel()
    line.ahead.set()
    async with limit(30):
        await asyncio.gather(*line.tasks, return_exceptions=True)
        async with line.queue.turn("203.0.113.5", known=False):
            line.served.append("203.0.113.5")
    assert line.served == ["198.51.100.0", "198.51.100.4", "203.0.113.5"]


async def test_passwords_are_compared_in_few_threads_that_give_way() -> None:
    passwords = Passwords()
    assert passwords.at_once <= max(1, (os.cpu_count() or 1) // 2)

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    ours = priority()
    theirs = await passwords._beside(priority)
    assert theirs == min(ours + NICE, 19)
    passwords.close()


def test_a_bucket_fills_again() -> None:
    moment = [100.0]
    buckets = Buckets(Rate(per_second=2, burst=3), lambda: moment[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    moment[0] += 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
