"""etcd's members, asked of a control-plane host."""

import json
import re
import secrets
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from clients.ssh.connections import Answer, Connections, line, named, root
from domain.errors import Unavailable
from domain.machine import Machine

_CONTAINER = re.compile(r"[0-9a-f]{8,64}")
_RUNNING = re.compile(r"^([0-9a-f]{8,64})\s+\d+\s+RUNNING\s*$", re.MULTILINE)
_CTR = ("ctr", "--namespace", "k8s.io")
"""containerd's own command, which is there wherever containerd is; crictl is a package of its own
that nothing asks for any more."""
LOCAL = "https://127.0.0.1:2379"
_PKI = "/etc/kubernetes/pki/etcd"
_ETCDCTL = (
    "etcdctl",
    f"--cacert={_PKI}/ca.crt",
    f"--cert={_PKI}/server.crt",
    f"--key={_PKI}/server.key",
)


class Member(BaseModel):
    """A member as etcdctl shows it. One that was added and has not started has no name yet."""

    model_config = ConfigDict(extra="ignore")

    id: int = Field(alias="ID")
    name: str = ""
    peers: list[str] = Field(default_factory=list, alias="peerURLs")
    clients: list[str] = Field(default_factory=list, alias="clientURLs")
    learner: bool = Field(default=False, alias="isLearner")

    def is_of(self, machine: Machine) -> bool:
        """Whether this is the host's member: by its name, or if it has none by its address."""
        if self.name:
            return self.name == machine.slot.name
        return f"https://{machine.address}:2380" in self.peers


class _Members(BaseModel):
    members: list[Member]


class _Standing(BaseModel):
    """How a member says that it stands. Without a majority it knows no leader."""

    leader: int = 0
    errors: list[str] = []


class _Answer(BaseModel):
    endpoint: str = Field(alias="Endpoint")
    standing: _Standing = Field(alias="Status")


_ANSWERS = TypeAdapter(list[_Answer])


class Etcd:
    """The etcd of the cluster that a control-plane host belongs to."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def members(self, through: Machine) -> list[Member]:
        out = await self._etcdctl(through, "member", "list", "-w", "json")
        try:
            return _Members.model_validate(json.loads(out)).members
        except (ValueError, ValidationError) as error:
            raise Unavailable(f"etcd on {named(through)} listed no members: {error}") from error

    async def remove(self, through: Machine, member: Member) -> None:
        """Take a member out. One that is gone already is success; a loss of the majority is
        refused by etcd itself."""
        await self._etcdctl(through, "member", "remove", f"{member.id:x}", gone="member not found")

    async def command(self, through: Machine, endpoints: Sequence[str] = (LOCAL,)) -> str:
        """How root calls etcdctl on the host: where it is, in etcd's own container."""
        container = await self._container(through)
        among = f"--endpoints={','.join(endpoints)}"
        own = f"windlass-{secrets.token_hex(8)}"
        execute = (*_CTR, "tasks", "exec", "--exec-id", own, container)
        return line(*execute, *_ETCDCTL, among)

    async def _container(self, through: Machine) -> str:
        """The container that etcd runs in: that of kubeadm's own pod, for others may be called
        etcd too. containerd lists those that have ended as well."""
        listing = root(*_CTR, "containers", "list", "--quiet", _of_etcd(through))
        tasks = root(*_CTR, "tasks", "list")
        answer = await self._connections.run(through, f"{listing}; echo; {tasks}")
        ours, _, running = answer.out.partition("\n\n")
        known = set(_CONTAINER.findall(ours))
        for container in _RUNNING.findall(running):
            if container in known:
                return str(container)
        said = f": {answer.err.strip()[-500:]}" if answer.err.strip() else ""
        raise Unavailable(f"no etcd runs on {named(through)}{said}", reason="ETCD_UNHEALTHY")

    async def answering(self, through: Machine, endpoints: Sequence[str]) -> set[str]:
        """Which of these members answer, know a leader and complain of nothing. It is asked of
        each by itself, so that it can be told without a majority too."""
        answer = await self._run(through, endpoints, "endpoint", "status", "-w", "json")
        try:
            answers = _ANSWERS.validate_json(answer.out)
        except ValidationError as error:
            raise _refused(through, answer, "endpoint status") from error
        return {each.endpoint for each in answers if _is_well(each.standing)}

    async def _etcdctl(self, through: Machine, *words: str, gone: str = "\0") -> str:
        answer = await self._run(through, [LOCAL], *words)
        if answer.status and gone not in answer.err:
            raise _refused(through, answer, " ".join(words))
        return answer.out

    async def _run(self, through: Machine, endpoints: Sequence[str], *words: str) -> Answer:
        command = f"sudo -n {await self.command(through, endpoints)} {line(*words)}"
        return await self._connections.run(through, command)


def _of_etcd(machine: Machine) -> str:
    """containerd's filter for what kubeadm runs etcd in on that host."""
    labels = {
        "io.kubernetes.container.name": "etcd",
        "io.kubernetes.pod.namespace": "kube-system",
        "io.kubernetes.pod.name": f"etcd-{machine.slot.name}",
    }
    return ",".join(f'labels."{name}"=={value}' for name, value in labels.items())


def _is_well(standing: _Standing) -> bool:
    return standing.leader != 0 and not standing.errors


def _refused(through: Machine, answer: Answer, what: str) -> Unavailable:
    return Unavailable(
        f"etcd on {named(through)} answered {answer.status} to {what}: {answer.err.strip()[-500:]}"
    )
