"""Hosts made into nodes by kubeadm, over SSH."""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clients.ssh import first_boot
from clients.ssh.access import Access
from clients.ssh.connections import LOGIN_REFUSED, Connections, line, named, root
from clients.ssh.etcd import Etcd
from clients.ssh.failures import (
    FOUNDING,
    FOUNDING_FINAL,
    JOINING,
    JOINING_FINAL,
    JOINING_LAST,
    failure,
)
from clients.ssh.inside import Insides
from clients.ssh.jobs import HOME, STEPS, Jobs, Repeats, Seen, Step
from clients.ssh.snapshots import BACK_UP, Snapshots
from clients.ssh.upgrades import UPGRADE_STEPS, Upgrades
from domain import kubeadm_config
from domain.cloud_init import LOGIN
from domain.errors import Failed, Unavailable
from domain.machine import Machine, Role
from domain.ports import Backups, Joining, Snapshot, Upgrading, Vault, kubeconfig
from domain.seen import Inside

Answered = TypeVar("Answered")

_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_TOKEN_LIFE = "30m"  # noqa: S105 - for how long one lives
_NOT_FOUND = 127
GUIDE_SECONDS = 180.0
"""How long a control plane may take to invite a host. kubeadm itself tries for 60 s to upload
certificates and for 120 s to make a token, and says only then why it could not."""
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.02, 2.0, 1.5

_MAKING = ("init", "join")
"""The steps that make a host a node."""

_CHANGING = (*UPGRADE_STEPS, BACK_UP)
"""The steps done to one later."""

_CLEAN = ("kubeadm", "reset", "--force")
_UPLOAD = (
    *("kubeadm", "init", "phase", "upload-certs", "--upload-certs"),
    *("--skip-certificate-key-print", "--config"),
)
_PREFLIGHT = Step(
    "preflight",
    ("kubeadm", "init", "phase", "preflight", "--config", f"{STEPS}/preflight/config.json"),
    about=("preflight",),
    passing=FOUNDING,
    final=FOUNDING_FINAL,
    repeats=Repeats.ALWAYS,
)
_INIT = Step(
    "init",
    ("kubeadm", "init", "--config", f"{STEPS}/init/config.json", "--skip-token-print"),
    about=(),
    passing=FOUNDING,
    final=FOUNDING_FINAL,
    clean=_CLEAN,
)
_JOIN = Step(
    "join",
    ("kubeadm", "join", "--config", f"{STEPS}/join/config.json"),
    about=(),
    passing=JOINING,
    final=JOINING_FINAL,
    last=JOINING_LAST,
    clean=_CLEAN,
)
_RESET = Step("reset", _CLEAN, about=("reset",), repeats=Repeats.ALWAYS)


class SshNodes:
    """`domain.ports.Nodes`. One instance per process; `close` it at the end."""

    def __init__(
        self,
        vault: Vault,
        backups: Backups,
        *,
        port: int = 22,
        user: str = LOGIN,
        api_port: int = 6443,
        connect_seconds: float = 10,
        job_seconds: float = 1800,
        voter_seconds: float = 300,
        images: str = "",
    ) -> None:
        """`job_seconds` is how long one call waits for a run of kubeadm, `voter_seconds` how long
        for a new etcd member's vote. A call that gives up is Unavailable, and the run goes on.
        `images` is the repository of Kubernetes' images, if it is one of our own."""
        self._vault = vault
        self._api_port = api_port
        self._voter_seconds = voter_seconds
        self._images = images
        self._connections = Connections(
            vault, port=port, user=user, connect_seconds=connect_seconds
        )
        self._jobs = Jobs(self._connections, job_seconds=job_seconds)
        self._etcd = Etcd(self._connections)
        self._upgrades = Upgrades(self._connections, self._jobs)
        self._snapshots = Snapshots(self._connections, self._jobs, self._etcd, backups)
        self._access = Access(self._connections, vault)
        self._insides = Insides(self._connections, self._etcd, self._access)

    async def close(self) -> None:
        await self._connections.close()

    async def reach(self, machine: Machine) -> bool:
        """Whether the host can be logged into and its first boot is over. A host that does not
        know our key is Unavailable rather than False: somebody should hear of it."""
        command = line("cloud-init", "status", "--format", "json")
        try:
            answer = await self._connections.run(machine, command, seconds=30)
        except Unavailable as error:
            if error.reason == LOGIN_REFUSED:
                raise
            return False
        return await first_boot.is_over(self._connections, machine, answer)

    async def preflight(self, machine: Machine) -> None:
        """Check that the host can become a node: kubeadm and a container runtime are there, and a
        control-plane host passes kubeadm's own checks; a worker's are part of its join. A host
        that is being made a node, or is one, has passed."""
        for verb in _MAKING:
            if (await self._jobs.look(machine, Step(verb, (), ()))).attempt:
                return
        await self._check_software(machine)
        if machine.slot.role is Role.CONTROL_PLANE:
            config = kubeadm_config.checking(machine, self._api_port, self._images)
            await self._jobs.carry_out(machine, _PREFLIGHT, _constant(config))

    async def initialise(self, joining: Joining) -> None:
        """Make the host the first control-plane node and keep its kubeconfig in the vault."""
        machine = joining.machine
        config = kubeadm_config.initialising(
            machine, joining.endpoint, self._api_port, self._images
        )
        await self._jobs.carry_out(machine, _step(_INIT, joining), _constant(config))
        await self._access.keep(machine)

    async def join(self, joining: Joining) -> None:
        """Make the host a node. Tokens and keys are made for one attempt only. A control-plane
        host has joined once its etcd member may vote."""

        async def configure(seen: Seen) -> str:
            again = seen.attempt > 0
            return await _by_any(
                joining.guides, lambda through: self._invitation(joining, through, again=again)
            )

        await self._jobs.carry_out(joining.machine, _step(_JOIN, joining), configure)
        if joining.machine.slot.role is Role.CONTROL_PLANE:
            await self._vote(joining)

    async def leave(self, joining: Joining) -> None:
        """Take the host's etcd member out, through another control-plane host. If there is no
        other there is no member to spare, and nothing to do."""
        machine = joining.machine
        others = [each for each in joining.guides if each.system_id != machine.system_id]
        if others:
            await _by_any(others, lambda through: self._take_member_out(machine, through))

    async def _take_member_out(self, machine: Machine, through: Machine) -> None:
        for member in await self._etcd.members(through):
            if member.is_of(machine):
                await self._etcd.remove(through, member)

    async def reset(self, machine: Machine) -> None:
        """Undo what made the host a node. kubeadm says it is done even if it could not take its
        etcd member out: `leave` comes first. A host without kubeadm has nothing to undo."""
        await self._jobs.stop(machine, *_MAKING, *_CHANGING)
        answer = await self._connections.run(machine, line("kubeadm", "version", "-o", "short"))
        if answer.status != _NOT_FOUND:
            await self._jobs.carry_out(machine, _RESET, _constant(""))
        await self._jobs.forget(machine, "preflight", *_MAKING, *_CHANGING)

    async def foresee(self, upgrading: Upgrading) -> str:
        """What kubeadm itself says of the upgrade. Its own package is all that may change."""
        return await self._upgrades.foresee(upgrading)

    async def back_up(self, snapshot: Snapshot) -> str:
        """Take a copy of etcd and of the certificates, and keep it sealed. Says where."""
        return await self._snapshots.back_up(snapshot)

    async def upgrade(self, upgrading: Upgrading) -> None:
        """Let the release's kubeadm upgrade the node, unless that is done."""
        await self._upgrades.upgrade(upgrading)

    async def renew_kubelet(self, upgrading: Upgrading) -> None:
        """Install the release's kubelet and restart it, unless that is done."""
        await self._upgrades.renew_kubelet(upgrading)

    async def see_through(self, upgrading: Upgrading) -> bool:
        """Wait for what runs of an upgrade, and begin none of it."""
        return await self._upgrades.see_through(upgrading)

    async def inside(self, control_planes: Sequence[Machine]) -> Inside:
        """What these hosts tell of their etcd and their certificates, as far as they answer."""
        return await self._insides.ask(control_planes)

    async def renew_access(self, control_planes: Sequence[Machine]) -> None:
        """Replace the kubeconfig that we keep by one that lives longer."""
        await self._access.renew(control_planes)

    async def _check_software(self, machine: Machine) -> None:
        wanted = f"v{machine.slot.release.version}"
        command = line("kubeadm", "version", "-o", "short")
        found = (await self._connections.run(machine, command)).succeeded(machine).strip()
        if found != wanted:
            raise Failed(f"kubeadm on {named(machine)} is {found}, not {wanted}")
        command = line("systemctl", "is-active", "containerd")
        state = (await self._connections.run(machine, command)).out.strip()
        if state != "active":
            raise Failed(f"containerd on {named(machine)} is {state or 'not there'}")

    async def _invitation(self, joining: Joining, through: Machine, *, again: bool) -> str:
        """What a host is told so that it can join: a token that nobody else gets and, for a
        control-plane host, the key to certificates uploaded for it alone. What an earlier attempt
        left in etcd is taken out first, for etcd would not be healthy with it."""
        machine = joining.machine
        certificate_key = ""
        if machine.slot.role is Role.CONTROL_PLANE:
            if again:
                await self.leave(joining)
            certificate_key = secrets.token_hex(32)
            await self._upload(machine, through, certificate_key)
        return kubeadm_config.joining(
            machine,
            joining.endpoint,
            self._api_port,
            token=await self._token(machine, through),
            ca_hash=await self._ca_hash(machine),
            certificate_key=certificate_key,
        )

    async def _token(self, machine: Machine, through: Machine) -> str:
        words = ("token", "create", "--ttl", _TOKEN_LIFE, "--description", machine.slot.name)
        command = root("kubeadm", *words)
        answer = await self._connections.run(through, command, seconds=GUIDE_SECONDS)
        if answer.status:
            what = f"kubeadm token create on {named(through)}"
            raise failure(what, answer.status, answer.err, JOINING, final=JOINING_FINAL)
        token = answer.out.strip()
        if not _TOKEN.fullmatch(token):
            raise Failed(f"kubeadm on {named(through)} made a token of {len(token)} characters")
        return token

    async def _upload(self, machine: Machine, through: Machine, certificate_key: str) -> None:
        """Have the shared certificates uploaded, sealed with this key. The key goes there in a
        file, and the file goes with the command that reads it."""
        directory = f"{HOME}/uploads"
        path = f"{directory}/{machine.slot.name}.json"
        owner = self._connections.user
        command = root("install", "-d", "-m", "0700", "-o", owner, HOME, directory)
        (await self._connections.run(through, command)).succeeded(through)
        config = kubeadm_config.uploading(through, certificate_key, self._api_port)
        await self._connections.put(through, path, config)
        script = f"{line(*_UPLOAD, path)}; status=$?; rm -f {line(path)}*; exit $status"
        command = root("sh", "-c", script)
        answer = await self._connections.run(through, command, seconds=GUIDE_SECONDS)
        if answer.status:
            what = f"kubeadm init phase upload-certs on {named(through)}"
            raise failure(what, answer.status, answer.err, JOINING, final=JOINING_FINAL)

    async def _ca_hash(self, machine: Machine) -> str:
        """The fingerprint of the authority in the kubeconfig that we keep."""
        config = await self._vault.open(kubeconfig(machine.slot.cluster_uid))
        try:
            data = yaml.safe_load(config)["clusters"][0]["cluster"]["certificate-authority-data"]
            authority = x509.load_pem_x509_certificate(base64.b64decode(data))
        except (yaml.YAMLError, LookupError, TypeError, ValueError) as error:
            cluster = machine.slot.cluster
            what = type(error).__name__  # its words, and its cause's, quote the file and its keys
            raise Failed(f"the kubeconfig of {cluster} cannot be read: {what}") from None
        key = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return "sha256:" + hashlib.sha256(key).hexdigest()

    async def _vote(self, joining: Joining) -> None:
        """Wait until the host's etcd member is no learner any more."""
        machine, pause = joining.machine, _FIRST_PAUSE
        try:
            async with asyncio.timeout(self._voter_seconds):
                while not await _by_any(
                    joining.guides, lambda through: self._votes(machine, through)
                ):
                    await asyncio.sleep(pause)
                    pause = min(pause * _GROWTH, _LONGEST_PAUSE)
        except TimeoutError as error:
            raise Unavailable(
                f"the etcd member of {named(machine)} may not vote after "
                f"{self._voter_seconds:.0f} s",
                reason="ETCD_UNHEALTHY",
            ) from error

    async def _votes(self, machine: Machine, through: Machine) -> bool:
        members = await self._etcd.members(through)
        return any(member.is_of(machine) and not member.learner for member in members)


async def _by_any(
    guides: Sequence[Machine], ask: Callable[[Machine], Awaitable[Answered]]
) -> Answered:
    """What the first of these hosts says that says anything."""
    *others, last = guides
    for through in others:
        with suppress(Unavailable):
            return await ask(through)
    return await ask(last)


def _step(step: Step, joining: Joining) -> Step:
    """The step for this host, in this cluster, as this node. What is said of it never changes:
    tokens and addresses of others have no part in it."""
    slot = joining.machine.slot
    words = (slot.cluster_uid, slot.name, slot.role, slot.release.version, joining.endpoint)
    return step._replace(about=(step.name, *words))


def _constant(config: str) -> Callable[[Seen], Awaitable[str]]:
    async def configure(_seen: Seen) -> str:
        return config

    return configure
