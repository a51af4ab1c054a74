"""Our way with etcd against a real one: three members over TLS, on the addresses of three hosts.

The hosts are simulated, and so is what brings us to `etcdctl` on them; that program and all behind
it is etcd's own."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from clients.ssh.connections import Connections
from clients.ssh.etcd import Etcd, Member
from domain.errors import Unavailable
from domain.machine import Machine
from sim.clusters import authority
from sim.hosts.hosts import COMMANDS
from sim.hosts.shell import Call
from tests.clients.cluster import founding, joining
from tests.clients.test_ssh import Crew
from tests.conformance.environments import PROGRAMS, installed, said
from tests.conformance.environments import etcd as program
from tests.conformance.processes import EndedBadlyError, done, eventually, running, stop
from tests.conformance.stage import Stage
from tests.metal import USER, metal

_OURS = "/etc/kubernetes/pki/etcd"
_SECONDS = 30


async def prepare() -> str:
    await installed(PROGRAMS)
    return (await said(program("etcd"), "--version")).splitlines()[0].replace(" Version:", "")


STAGE = Stage(
    name="etcd",
    proves="members are listed, added, promoted and removed, and a snapshot restored, as we do it",
    prepare=prepare,
    tests=("tests/conformance/etcd.py",),
)


@dataclass
class Members:
    """A real etcd under a simulated control plane."""

    crew: Crew
    home: Path
    stack: AsyncExitStack
    machines: list[Machine] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        site = self.crew.site
        self.etcd = Etcd(
            Connections(self.crew.vault, port=site.port, user=USER, connect_seconds=10)
        )
        self.authority = authority.authority("etcd-ca")
        (self.home / "ca.crt").write_text(self.authority.certificate)

    def peer(self, machine: Machine) -> str:
        return f"https://{machine.address}:2380"

    def client(self, machine: Machine) -> str:
        return f"https://{machine.address}:2379"

    async def found(self) -> None:
        """Three members, and three hosts that kubeadm made control planes of."""
        names = ("cp-1", "cp-2", "cp-3")
        self.machines += [await self.crew.site.install(name) for name in names]
        for machine in self.machines:
            await self.start(machine, self.machines)
        first, *others = self.machines
        await eventually("all have started", self._all_named, seconds=_SECONDS)
        await self.crew.nodes.initialise(founding(first))
        self.crew.site.clusters.network_applied(self.crew.site.clusters.all()[0].uid)
        for machine in others:
            await self.crew.nodes.join(joining(machine, first))

    async def _all_named(self) -> bool:
        try:
            told = json.loads(await self.ctl("member", "list", "-w", "json"))
        except EndedBadlyError:  # not up yet
            return False
        return all("clientURLs" in each for each in told["members"])

    async def start(
        self, machine: Machine, members: list[Machine], *, state: str = "new", data: str = ""
    ) -> None:
        name = machine.slot.name
        names = (machine.address, "127.0.0.1")
        pair = authority.server(self.authority, name, names, also_calls=True)
        certificate, key = self.home / f"{name}.crt", self.home / f"{name}.key"
        certificate.write_text(pair.certificate)
        key.write_text(pair.key)
        tls = (f"cert-file={certificate}", f"key-file={key}")
        authorities = f"trusted-ca-file={self.home / 'ca.crt'}"
        started = running(
            program("etcd"),
            f"--name={name}",
            f"--data-dir={self.home / (data or name)}",
            f"--listen-client-urls={self.client(machine)}",
            f"--advertise-client-urls={self.client(machine)}",
            f"--listen-peer-urls={self.peer(machine)}",
            f"--initial-advertise-peer-urls={self.peer(machine)}",
            "--initial-cluster=" + ",".join(f"{m.slot.name}={self.peer(m)}" for m in members),
            f"--initial-cluster-state={state}",
            *("--client-cert-auth", "--peer-client-cert-auth"),
            *(f"--{each}" for each in (*tls, authorities)),
            *(f"--peer-{each}" for each in (*tls, authorities)),
            log=self.home / f"{name}.log",
            environment={"PATH": os.environ["PATH"]},
        )
        self.processes[name] = await self.stack.enter_async_context(started)

    async def ctl(self, *words: str | Path) -> str:
        """etcdctl, as somebody else would call it."""
        return await done(
            (
                program("etcdctl"),
                f"--endpoints={self.client(self.machines[0])}",
                f"--cacert={self.home / 'ca.crt'}",
                f"--cert={self.home / 'cp-1.crt'}",
                f"--key={self.home / 'cp-1.key'}",
                *words,
            ),
            log=self.home / "etcdctl.log",
            seconds=_SECONDS,
        )

    async def add_learner(self, machine: Machine) -> None:
        """Add a member without a vote. While etcd elects a leader, or takes a member that has just
        connected for unhealthy, it refuses."""
        name, peer = machine.slot.name, self.peer(machine)

        async def added() -> bool:
            try:
                await self.ctl("member", "add", name, f"--peer-urls={peer}", "--learner")
            except EndedBadlyError as refused:
                return "Peer URLs already exists" in str(refused)
            return True

        await eventually(f"{name} is added", added, seconds=_SECONDS)

    async def listed(self) -> dict[str, Member]:
        return {member.name: member for member in await self.etcd.members(self.machines[0])}

    async def leave(self, machine: Machine) -> None:
        """Take a member out as we do, again and again: for its first five seconds etcd takes a
        member that has just connected for unhealthy."""

        async def left() -> bool:
            try:
                await self.crew.nodes.leave(joining(machine, self.machines[0]))
            except Unavailable:
                return False
            return True

        await eventually(f"{machine.slot.name} is out", left, seconds=_SECONDS)

    async def run(self, call: Call) -> int:
        """The real etcdctl for whoever calls it on a host, with that host's address and our
        certificates for what it was told."""
        machine = call.host.state.machine
        words = [
            word.replace(f"{_OURS}/server", str(self.home / machine.hostname))
            .replace(_OURS, str(self.home))
            .replace("127.0.0.1", machine.address)
            for word in call.words[1:]
        ]
        process = await asyncio.create_subprocess_exec(
            program("etcdctl"), *words, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        await call.out.write(out)
        await call.err.write(err)
        return process.returncode or 0


@pytest.fixture
async def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Members]:
    async with metal() as site, AsyncExitStack() as stack:
        crew = Crew(site)
        stack.push_async_callback(crew.nodes.close)
        made = Members(crew, tmp_path, stack)
        monkeypatch.setitem(COMMANDS, "etcdctl", made.run)
        await made.found()
        yield made


async def test_members_are_listed_with_names_and_addresses(members: Members) -> None:
    listed = await members.listed()
    assert listed.keys() == {"cp-1", "cp-2", "cp-3"}
    for machine in members.machines:
        member = listed[machine.slot.name]
        assert member.is_of(machine)
        assert member.peers == [members.peer(machine)]
        assert not member.learner


async def test_a_member_is_removed_through_another_and_removing_it_twice_is_success(
    members: Members,
) -> None:
    first, _, third = members.machines
    gone = (await members.listed())["cp-3"]
    for _ in range(2):
        await members.leave(third)
    await members.etcd.remove(first, gone)
    assert (await members.listed()).keys() == {"cp-1", "cp-2"}


async def test_a_member_that_was_added_and_has_not_started_is_known_by_its_address(
    members: Members,
) -> None:
    first, _, third = members.machines
    await members.leave(third)
    await stop(members.processes["cp-3"])
    await members.add_learner(third)
    (added,) = [member for member in await members.etcd.members(first) if not member.name]
    assert added.is_of(third)
    assert added.learner
    await members.leave(third)
    assert (await members.listed()).keys() == {"cp-1", "cp-2"}


async def test_a_learner_may_vote_once_it_is_promoted(members: Members) -> None:
    third = members.machines[2]
    await members.leave(third)
    await stop(members.processes["cp-3"])
    await members.add_learner(third)
    await members.start(third, members.machines, state="existing", data="again")

    async def named() -> bool:
        return "cp-3" in await members.listed()

    await eventually("the learner has started", named, seconds=_SECONDS)
    learner = (await members.listed())["cp-3"]
    assert learner.learner

    async def promoted() -> bool:
        try:
            await members.ctl("member", "promote", f"{learner.id:x}")
        except EndedBadlyError:  # not in sync with its leader yet
            return False
        return True

    await eventually("the learner is promoted", promoted, seconds=_SECONDS)
    assert not (await members.listed())["cp-3"].learner


async def test_etcd_itself_refuses_to_lose_its_majority(members: Members) -> None:
    first, second, _ = members.machines
    await stop(members.processes["cp-3"])
    with pytest.raises(Unavailable, match=r"unhealthy cluster|not enough started members"):
        await members.crew.nodes.leave(joining(second, first))
    assert len(await members.listed()) == 3


async def test_without_a_majority_nothing_is_listed(members: Members) -> None:
    for name in ("cp-2", "cp-3"):
        await stop(members.processes[name])
    with pytest.raises(Unavailable, match="answered 1 to member list"):
        await members.listed()


async def test_a_snapshot_brings_back_what_was_there(members: Members) -> None:
    snapshot, utility = members.home / "snapshot.db", program("etcdutl")
    log = members.home / "etcdutl.log"
    await members.ctl("put", "colour", "blue")
    await members.ctl("snapshot", "save", snapshot)
    await members.ctl("put", "colour", "red")
    told = await done((utility, "snapshot", "status", snapshot, "-w", "json"), log=log, seconds=30)
    assert json.loads(told)["totalKey"] >= 1
    for process in members.processes.values():
        await stop(process)
    first = members.machines[0]
    await done(
        (
            *(utility, "snapshot", "restore", snapshot, "--name=cp-1"),
            f"--initial-cluster=cp-1={members.peer(first)}",
            f"--initial-advertise-peer-urls={members.peer(first)}",
            f"--data-dir={members.home / 'restored'}",
        ),
        log=log,
        seconds=_SECONDS,
    )
    await members.start(first, [first], data="restored")

    async def back() -> bool:
        return (await members.ctl("get", "colour", "--print-value-only")).split() == ["blue"]

    await eventually("the restored member answers", back, seconds=_SECONDS)
    assert (await members.listed()).keys() == {"cp-1"}
