"""A small Ceph of Debian's packages, on loopback: a mon, a manager with its dashboard, four OSDs.
No systemd, no containers. Every daemon is a child of ours and ends with the block."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import tempfile
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.processes import EndedBadlyError, done, eventually, running

OSDS = 4
OSD_BYTES = 4 << 30
"""The file is sparse."""

USER = "windlass"
START_SECONDS = 120
COMMAND_SECONDS = 40
PORTS = range(20_000, 32_000)
"""Above them a peer's own port may have been given out just now, and a daemon would not start."""

CONF = """[global]
fsid = {fsid}
mon_initial_members = a
mon_host = [v2:127.0.0.1:{mon},v1:127.0.0.1:{legacy}]
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
public_addr = 127.0.0.1
ms_bind_ipv6 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
run_dir = {home}
admin_socket = {home}/$name.asok
log_file = {home}/$name.log
mon_cluster_log_file = {home}/cluster.log
crash_dir = {home}
# one host: copies go to different OSDs, and two of them may report a third
osd_crush_chooseleaf_type = 0
mon_osd_reporter_subtree_level = osd
osd_pool_default_size = 3
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_max_pg_per_osd = 500
# mon_allow_pool_delete is left out: a value in this file would outrank what is set at run time
paxos_propose_interval = 0.1
mon_data_avail_warn = 5
mon_data_avail_crit = 2
osd_heartbeat_grace = 10
mgr_stats_period = 2
# a mon misses no manager in the first two minutes of a cluster, unless it is told to
mon_mgr_mkfs_grace = 10
# `restful` cannot be imported on Debian 12, and would be a warning for ever
mgr_initial_modules = dashboard iostat
[mon]
mon_data = {home}/mon
[mgr]
mgr_data = {home}/mgr
keyring = {home}/mgr/keyring
[osd]
osd_data = {home}/$name
keyring = {home}/$name/keyring
osd_objectstore = bluestore
osd_memory_target = 939524096
bluestore_block_size = {osd_bytes}
bluestore_block_create = true
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
[client]
log_file = /dev/null
admin_socket =
"""


def low_port() -> int:
    """One that nobody listens on now, below those that are given out by chance."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no port is free")


@dataclass
class Ceph:
    """The cluster, and `ceph` as its administrator types it."""

    home: Path
    stack: AsyncExitStack
    fsid: str = field(default_factory=lambda: str(uuid.uuid4()))
    password: str = field(default_factory=lambda: uuid.uuid4().hex)
    dashboard: int = field(default_factory=low_port)
    daemons: dict[str, Process] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard}"

    @property
    def conf(self) -> Path:
        return self.home / "ceph.conf"

    @property
    def keyring(self) -> Path:
        return self.home / "keyring"

    @property
    def environment(self) -> dict[str, str]:
        """Without what would replace the daemons' own keys."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CEPH_")}
        return kept | {"CEPH_CONF": str(self.conf)}

    async def secret(self) -> str:
        return self.password

    async def run(self, *words: str | Path) -> str:
        return await done(
            words,
            log=self.home / "commands.log",
            seconds=COMMAND_SECONDS,
            environment=self.environment,
        )

    async def ceph(self, *words: str) -> str:
        admin = ("--name", "client.admin", "--keyring", self.keyring, "--connect-timeout", "10")
        return await self.run("ceph", "--conf", self.conf, *admin, *words)

    async def told(self, *words: str) -> Any:
        """What a command says, read as JSON; it talks before that, or after."""
        said = await self.ceph(*words, "--format", "json")
        begins = min(at for at in map(said.find, "{[") if at >= 0)
        return json.JSONDecoder().raw_decode(said, begins)[0]

    async def start(self, name: str) -> None:
        kind, _, number = name.partition(".")
        self.daemons[name] = await self.stack.enter_async_context(
            running(
                f"ceph-{kind}",
                *("-f", "--conf", self.conf, "-i", number),
                log=self.home / f"{name}.out",
                environment=self.environment,
            )
        )

    def kill(self, name: str) -> None:
        self.daemons[name].send_signal(signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """It is there, and does nothing."""
        self.daemons[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.daemons[name].send_signal(signal.SIGCONT)

    async def found(self) -> None:
        """From nothing to HEALTH_OK."""
        self.conf.write_text(
            CONF.format(
                fsid=self.fsid,
                home=self.home,
                mon=low_port(),
                legacy=low_port(),
                osd_bytes=OSD_BYTES,
            )
        )
        await self._mon()
        await self.ceph("mon", "enable-msgr2")
        for name, value in (("ssl", "false"), ("server_addr", "127.0.0.1")):
            await self.ceph("config", "set", "mgr", f"mgr/dashboard/{name}", value, "--force")
        port = str(self.dashboard)
        await self.ceph("config", "set", "mgr", "mgr/dashboard/server_port", port, "--force")
        await self._own_key("mgr", "mgr.x", "mon", "allow profile mgr", "osd", "allow *")
        await self.start("mgr.x")
        await asyncio.gather(*(self._osd(str(number)) for number in range(OSDS)))
        await eventually("the dashboard takes a user", self._user_made, seconds=START_SECONDS)
        await eventually("HEALTH_OK", self.healthy, seconds=START_SECONDS)

    async def _mon(self) -> None:
        monmap, tool = self.home / "monmap", "ceph-authtool"
        mon = self.conf.read_text().partition("mon_host = ")[2].partition("\n")[0]
        await self.run(
            tool,
            "--create-keyring",
            self.keyring,
            "--gen-key",
            "-n",
            "mon.",
            "--cap",
            "mon",
            "allow *",
        )
        rights = [
            word for kind in ("mon", "osd", "mds", "mgr") for word in ("--cap", kind, "allow *")
        ]
        await self.run(tool, self.keyring, "--gen-key", "-n", "client.admin", *rights)
        await self.run("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", mon, monmap)
        await self.run(
            *("ceph-mon", "--conf", self.conf, "--mkfs", "-i", "a"),
            *("--monmap", monmap, "--keyring", self.keyring),
        )
        await self.start("mon.a")

    async def _own_key(self, folder: str, *entity: str) -> None:
        (self.home / folder).mkdir()
        await self.ceph("auth", "get-or-create", *entity, "-o", str(self.home / folder / "keyring"))

    async def _osd(self, number: str) -> None:
        name = f"osd.{number}"
        folder = self.home / name
        folder.mkdir()
        key = (await self.run("ceph-authtool", "--gen-print-key")).strip()
        secret = folder / "secret.json"
        secret.write_text(json.dumps({"cephx_secret": key}))
        identity = str(uuid.uuid4())
        await self.ceph("osd", "new", identity, number, "-i", str(secret))
        await self.run(
            *("ceph-authtool", "--create-keyring", folder / "keyring", "-n", name, "--add-key", key)
        )
        made = ("--mkfs", "--osd-uuid", identity)
        await self.run("ceph-osd", "--conf", self.conf, "-i", number, *made)
        await self.start(name)

    async def _user_made(self) -> bool:
        file = self.home / "password"
        file.write_text(self.password)
        try:
            words = ("ac-user-create", USER, "-i", str(file), "administrator", "--force-password")
            await self.ceph("dashboard", *words)
        except EndedBadlyError:  # the module is not loaded yet
            return False
        return True

    async def healthy(self) -> bool:
        try:
            return str((await self.told("health"))["status"]) == "HEALTH_OK"
        except EndedBadlyError:
            return False


@asynccontextmanager
async def cluster() -> AsyncIterator[Ceph]:
    """In a folder whose name is short enough for a socket's."""
    home = Path(tempfile.mkdtemp(prefix="wl-ceph-"))
    try:
        async with AsyncExitStack() as stack:
            ceph = Ceph(home, stack)
            await ceph.found()
            yield ceph
    finally:
        shutil.rmtree(home, ignore_errors=True)
