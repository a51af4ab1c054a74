"""Signing in: a name and a password for a token. Whatever is wrong costs the same and sounds the
same, and whoever guesses waits."""

import math
from datetime import timedelta
from typing import NamedTuple

from api.asking import notes
from api.sign_in_queue import SignInQueue
from domain import access
from domain.access import TokenInfo
from domain.errors import Conflict, Exhausted, Invalid, Unauthenticated
from domain.password_rules import mismeasured
from store.attempts import Attempts, Wait
from store.passwords import Passwords
from store.tokens import Tokens
from store.users import Users

SPARE_TURNS = 2
"""So many more have a turn than passwords are compared at once: the others ask the database."""


class Terms(NamedTuple):
    """What an operator decides about signing in."""

    lifetime: timedelta
    idle: timedelta
    """How long a token may lie unused. Nothing: until its lifetime is over."""
    by_password: bool = True


class SignIn:
    def __init__(
        self,
        users: Users,
        tokens: Tokens,
        attempts: Attempts,
        passwords: Passwords,
        terms: Terms,
    ) -> None:
        self._users = users
        self._tokens = tokens
        self._attempts = attempts
        self._passwords = passwords
        self._terms = terms
        self._queue = SignInQueue(passwords.at_once + SPARE_TURNS)

    async def sign_in(self, name: str, password: str, where: str) -> tuple[str, TokenInfo]:
        """A token for whoever knows the password and calls from there."""
        if not self._terms.by_password:
            raise Conflict(
                "nobody signs in with a password here",
                reason="PASSWORD_LOGIN_OFF",
                do="use a token that an administrator has made, or a certificate",
            )
        violations = [*access.misnamed(name), *mismeasured(password)]
        if violations:
            raise Invalid(
                "; ".join(f"{each.field} {each.description}" for each in violations),
                violations=violations,
            )
        await self.prove(name, password, where)
        return await self._tokens.issue(
            name, lifetime=self._terms.lifetime, idle=self._terms.idle, source=where
        )

    async def prove(self, name: str, password: str, where: str) -> None:
        """Raise unless that is the user's password."""
        standing = await self._attempts.standing(name, where)
        if standing.wait is not None and not standing.wait.is_first:
            raise _throttled(standing.wait)
        async with self._queue.turn(where, known=standing.is_known):
            wait = await self._attempts.begin(name, where)
            notes().is_told = wait is None or wait.is_first
            if wait is not None:
                raise _throttled(wait)
            await self._compare(name, password, where)

    async def _compare(self, name: str, password: str, where: str) -> None:
        lock = await self._users.lock(name)
        if not await self._passwords.agrees(password, lock.password if lock else "") or not lock:
            raise Unauthenticated(
                "wrong user name or password",
                reason="SIGN_IN_FAILED",
                do="windlass user passwd sets another password, by an administrator",
            )
        await self._attempts.succeed(name, where)
        if self._passwords.is_dated(lock.password):
            await self._users.rehash(lock, await self._passwords.hashed(password))


def _throttled(wait: Wait) -> Exhausted:
    """What whoever has to wait is told."""
    seconds = math.ceil(wait.left.total_seconds())
    return Exhausted(
        f"too many failed sign-ins: wait {seconds} s",
        reason="SIGN_IN_THROTTLED",
        do="try again then",
        retry_seconds=seconds,
    )
