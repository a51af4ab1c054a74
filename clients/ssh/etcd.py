"""etcd's members, asked of a control-plane host."""

import json
import re

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clients.ssh.connections import Connections, line, named, root
from domain.errors import Unavailable
from domain.machine import Machine

_CONTAINER = re.compile(r"[0-9a-f]{8,64}")
_PKI = "/etc/kubernetes/pki/etcd"
_ETCDCTL = (
    "etcdctl",
    "--endpoints=https://127.0.0.1:2379",
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
    learner: bool = Field(default=False, alias="isLearner")

    def is_of(self, machine: Machine) -> bool:
        """Whether this is the host's member: by its name, or if it has none by its address."""
        if self.name:
            return self.name == machine.slot.name
        return f"https://{machine.address}:2380" in self.peers


class _Members(BaseModel):
    members: list[Member]


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

    async def command(self, through: Machine) -> str:
        """How root calls etcdctl on the host: where it is, in etcd's own container."""
        find = root("crictl", "ps", "--quiet", "--name=etcd", "--state=running")
        found = _CONTAINER.search((await self._connections.run(through, find)).out)
        if found is None:
            raise Unavailable(f"no etcd runs on {named(through)}")
        return line("crictl", "exec", found[0], *_ETCDCTL)

    async def _etcdctl(self, through: Machine, *words: str, gone: str = "\0") -> str:
        command = f"sudo -n {await self.command(through)} {line(*words)}"
        answer = await self._connections.run(through, command)
        if answer.status and gone not in answer.err:
            raise Unavailable(
                f"etcd on {named(through)} answered {answer.status} to {' '.join(words)}: "
                f"{answer.err.strip()[-500:]}"
            )
        return answer.out
