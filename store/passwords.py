"""Passwords: hashed with Argon2id, beside the loop, in few threads that give way to all others.

Whoever is unknown costs what whoever is known costs: there is always a hash to compare with."""

import asyncio
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from domain.errors import Exhausted

MEMORY_KIB, ROUNDS, LANES = 19 * 1024, 2, 1
NICE = 5
"""By how much the threads that hash give way to the rest of the process."""
WAITING = 64
"""More than these are sent away: else signing in would be a way to starve the machine."""

Answer = TypeVar("Answer")


def _give_way() -> None:
    """Lower the priority of the thread that runs. Linux has one for each thread."""
    thread = threading.get_native_id()
    ours = os.getpriority(os.PRIO_PROCESS, thread)
    os.setpriority(os.PRIO_PROCESS, thread, min(ours + NICE, 19))


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=LANES, hash_len=32
        )
        cores = os.cpu_count() or 1
        self.at_once = max(1, cores // 2)
        """So many are hashed at the same time."""
        self._pool = ThreadPoolExecutor(
            max_workers=self.at_once, thread_name_prefix="passwords", initializer=_give_way
        )
        self._under_way = 0
        self._most = WAITING + self.at_once
        self._nobody = ""

    async def hashed(self, password: str) -> str:
        """What is kept of a password."""
        return await self._beside(lambda: self._hasher.hash(password))

    async def agrees(self, password: str, kept: str) -> bool:
        """Whether it is the one that was hashed. Nothing kept agrees with nothing, and takes as
        long to say so."""
        if not self._nobody:
            self._nobody = await self.hashed(secrets.token_urlsafe())
        agreed = await self._beside(lambda: self._compared(password, kept or self._nobody))
        return agreed and bool(kept)

    def is_dated(self, kept: str) -> bool:
        """Whether it was hashed with less than is asked for today."""
        return self._hasher.check_needs_rehash(kept)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compared(self, password: str, kept: str) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _beside(self, work: Callable[[], Answer]) -> Answer:
        if self._under_way >= self._most:
            raise Exhausted(
                "too many sign in at this moment",
                reason="SIGN_IN_BUSY",
                do="try again in a moment",
                retry_seconds=1,
            )
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._under_way -= 1
