"""Ceph's own program `ceph`, for what the manager's API has no words for.

It runs in a process group of its own and ends by a deadline: without a manager it would wait for
ever. The library behind it is never loaded into ours, since a late answer crashes its process."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from pathlib import Path

from clients.ceph.identities import Identities, RestIdentities
from clients.ceph.session import DOWN, ERRNO, LONGEST_QUOTE, Session, Verdict
from domain.errors import Failed, Unavailable
from domain.share import Identity

DEADLINE_SECONDS = 15.0
CONNECT_SECONDS = 5
OTHER_RIGHTS = 22
"""EINVAL, by which it says that an identity is there with other rights."""

SILENCE = "timed out"
"""What it says when no mon answers, after much about keyrings that it does not need."""

LEFT_OUT = tuple(f"CEPH_{what}" for what in ("ARGS", "CONF", "KEYRING"))
"""Variables that would overrule what we say."""


class Program:
    """`ceph`, with the configuration and the keyring of whoever asks."""

    def __init__(
        self,
        conf: Path,
        keyring: Path,
        *,
        name: str = "client.admin",
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._options = ("--conf", str(conf), "--keyring", str(keyring), "--name", name)
        self._deadline_seconds = deadline_seconds

    async def must(self, *words: str) -> bytes:
        """What it says, where there is nothing to say but that."""
        code, said, trouble = await self.run(*words)
        if code:
            raise _refused(" ".join(words[:2]), code, trouble)
        return said

    async def run(self, *words: str) -> tuple[int, bytes, str]:
        """Its exit code, what it said and what it complained of."""
        try:
            process = await asyncio.create_subprocess_exec(
                "ceph",
                *self._options,
                *("--connect-timeout", str(CONNECT_SECONDS), "--format", "json"),
                *words,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in LEFT_OUT},
            )
        except OSError as error:
            raise Failed(
                f"the program ceph cannot be run: {error.strerror}",
                reason="CEPH_NO_PROGRAM",
                do="install the package ceph-common where the worker runs",
            ) from error
        try:
            async with asyncio.timeout(self._deadline_seconds):
                said, trouble = await process.communicate()
        except TimeoutError as error:
            what = " ".join(words[:2])
            raise Unavailable(
                f"ceph {what} did not end within {self._deadline_seconds:g} s", reason="CEPH_DOWN"
            ) from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return process.returncode or 0, said, trouble.decode(errors="replace")


class ProgramIdentities:
    """Through `ceph`, as somebody who may make others."""

    def __init__(self, conf: Path, keyring: Path, *, name: str = "client.admin") -> None:
        self._program = Program(conf, keyring, name=name)

    async def ensure(self, identity: Identity) -> str:
        caps = [word for pair in identity.caps.items() for word in pair]
        asked = ("auth", "get-or-create", identity.entity, *caps)
        code, said, trouble = await self._program.run(*asked)
        if code == OTHER_RIGHTS:  # the key stays as it is, all rights are replaced
            await self._program.must("auth", "caps", identity.entity, *caps)
            said = await self._program.must("auth", "get", identity.entity)
        elif code:
            raise _refused("auth get-or-create", code, trouble)
        try:
            return str(json.loads(said)[0]["key"])
        except (ValueError, LookupError, TypeError) as error:
            raise Unavailable(
                "ceph auth get-or-create did not answer with a key", reason="CEPH_STRANGE"
            ) from error

    async def revoke(self, identity: Identity) -> None:
        await self._program.must("auth", "rm", identity.entity)


def identities(session: Session, conf: Path | None, keyring: Path | None) -> Identities:
    """Who makes them: the program where it was given what it needs, or else the manager."""
    return ProgramIdentities(conf, keyring) if conf and keyring else RestIdentities(session)


def _refused(what: str, code: int, trouble: str) -> Exception:
    verdict = ERRNO.get(str(code), Verdict(Failed, "CEPH_REFUSED"))
    if SILENCE in trouble:  # it exits with 1 then, as it does for what is refused
        verdict = DOWN
    words = " ".join(trouble[-LONGEST_QUOTE:].split())
    return verdict.error(f"ceph {what} exited with {code}: {words}", reason=verdict.reason)
