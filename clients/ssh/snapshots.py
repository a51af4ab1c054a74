"""Copies of a cluster: its etcd and its certificates, taken on a control-plane host and brought
away piece by piece. On the host the copy lies where only we and root can read, and not for long."""

import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from clients.ssh.connections import Connections, line, named
from clients.ssh.etcd import Etcd
from clients.ssh.failures import Final, Passing
from clients.ssh.jobs import STEPS, Jobs, Repeats, Seen, Step
from domain.errors import Unavailable
from domain.machine import Machine
from domain.ports import Backups, Snapshot

BACK_UP = "back-up"
"""The name of the job in here."""

_ARCHIVE = f"{STEPS}/{BACK_UP}/backup.tar"
_ETCD_DATA = "/var/lib/etcd"
_SAVED = "windlass-snapshot.db"
_DIGEST_SECONDS = 600
_PASSING = (
    Passing(
        re.compile(r"context deadline exceeded|connection refused|etcdserver: |not found"),
        "ETCD_UNHEALTHY",
    ),
)
_FINAL = (
    Final(
        re.compile(r"No space left on device"),
        "DISK_FULL",
        "make room on the host: the copy takes twice what etcd holds; then ask again",
    ),
)


class Snapshots:
    """Copies of clusters, from hosts to where backups are kept."""

    def __init__(self, connections: Connections, jobs: Jobs, etcd: Etcd, backups: Backups) -> None:
        self._connections = connections
        self._jobs = jobs
        self._etcd = etcd
        self._backups = backups

    async def back_up(self, snapshot: Snapshot) -> str:
        """Take the copy, bring it away and clear it away on the host. Says where it is kept."""
        machine = snapshot.machine
        step = self._step(snapshot, await self._etcd.command(machine))
        await self._jobs.carry_out(machine, step, _nothing)
        digest = await self._digest(machine)
        async with aclosing(self._brought(machine, digest)) as pieces:
            where = await self._backups.keep(snapshot, pieces)
        await self._connections.run(machine, line("rm", "-f", _ARCHIVE))
        return where

    def _step(self, snapshot: Snapshot, etcdctl: str) -> Step:
        """Save where etcd's container and the host both look, pack, and leave but the archive."""
        saved = f"{_ETCD_DATA}/{_SAVED}"
        owner = self._connections.user
        packing = line(
            *("tar", "-cf", _ARCHIVE, "-C", _ETCD_DATA, _SAVED),
            *("-C", "/etc/kubernetes", "pki"),
        )
        orders = (
            f"{etcdctl} {line('snapshot', 'save', saved)}",
            line("install", "-m", "0600", "-o", owner, "/dev/null", _ARCHIVE),
            packing,
        )
        script = "; ".join(
            (
                " && ".join(orders),
                "status=$?",
                f"rm -f {saved} {saved}.part",
                f"test $status = 0 || rm -f {_ARCHIVE}",
                "exit $status",
            )
        )
        return Step(
            BACK_UP,
            ("sh", "-c", script),
            about=(BACK_UP, snapshot.machine.slot.cluster_uid, snapshot.name),
            passing=_PASSING,
            repeats=Repeats.ALWAYS,
            final=_FINAL,
            title="the etcd snapshot",
        )

    async def _digest(self, machine: Machine) -> str:
        command = line("sha256sum", _ARCHIVE)
        answer = await self._connections.run(machine, command, seconds=_DIGEST_SECONDS)
        return answer.succeeded(machine).partition(" ")[0]

    async def _brought(self, machine: Machine, digest: str) -> AsyncGenerator[bytes, None]:
        """The archive, piece by piece. What was changed or lost on the way is Unavailable at the
        end, before anybody believes it."""
        seen = hashlib.sha256()
        async with aclosing(self._connections.fetch(machine, _ARCHIVE)) as pieces:
            async for piece in pieces:
                seen.update(piece)
                yield piece
        if seen.hexdigest() != digest:
            raise Unavailable(f"the copy of {named(machine)}'s etcd changed on its way here")


async def _nothing(_seen: Seen) -> str:
    """A job that is told everything on its command line."""
    return ""
