"""What only a control plane's hosts know: how its etcd is, and when certificates expire."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import TypeVar

from cryptography import x509

from clients.ssh.access import Access
from clients.ssh.connections import Connections, root
from clients.ssh.etcd import Etcd, Member
from domain.errors import DomainError
from domain.machine import Machine
from domain.seen import Inside, MemberSeen

CERTIFICATES = ("/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/etcd/server.crt")
"""One from each of kubeadm's two authorities. It signs, and renews, all of a host together."""

HOST_SECONDS = 15.0
"""How long a host has for one answer."""

MEMBERS_SECONDS = 25.0
"""How long one has to say which members of etcd answer. etcdctl asks one after the other, and gives
up each that is silent after five seconds."""

Answered = TypeVar("Answered")


class Insides:
    def __init__(self, connections: Connections, etcd: Etcd, access: Access) -> None:
        self._connections = connections
        self._etcd = etcd
        self._access = access

    async def ask(self, control_planes: Sequence[Machine]) -> Inside:
        """What can be found out. A host that cannot be reached, or that hangs, says nothing of its
        certificates, and others tell of its etcd."""
        expiries, members = await asyncio.gather(
            asyncio.gather(*(self._expiry(each) for each in control_planes)),
            self._members(control_planes),
        )
        known = [
            (day, each.slot.name) for day, each in zip(expiries, control_planes, strict=True) if day
        ]
        expires, on = min(known, default=(None, ""))
        admitted = await self._access.until(control_planes[0].slot.cluster_uid)
        return Inside(members=members, expires=expires, expires_on=on, admitted_until=admitted)

    async def _members(self, control_planes: Sequence[Machine]) -> tuple[MemberSeen, ...] | None:
        """Whom etcd counts, as the first host says that can. All are asked at the same time: those
        that hang must not keep the others waiting. Without a majority etcd does not say; then the
        members are taken to be these."""
        lists = await asyncio.gather(*(self._counted(each) for each in control_planes))
        told = [
            (through, counted)
            for through, counted in zip(control_planes, lists, strict=True)
            if counted is not None
        ]
        if told:
            through, counted = told[0]
            at = {
                member.name or " ".join(member.peers): next(iter(member.clients), "")
                for member in counted
            }
            learners = {member.name for member in counted if member.learner}
            asking: Sequence[Machine] = [through]
        else:
            at = {each.slot.name: f"https://{each.address}:2379" for each in control_planes}
            learners, asking = set(), control_planes
        asked = sorted(filter(None, at.values()))
        answers = await asyncio.gather(*(self._answering(each, asked) for each in asking))
        heard = next((each for each in answers if each is not None), None)
        if heard is None:
            return None
        return tuple(
            MemberSeen(name=name, answers=endpoint in heard, learner=name in learners)
            for name, endpoint in sorted(at.items())
        )

    async def _counted(self, through: Machine) -> list[Member] | None:
        return await _within(HOST_SECONDS, self._etcd.members(through))

    async def _answering(self, through: Machine, endpoints: Sequence[str]) -> set[str] | None:
        return await _within(MEMBERS_SECONDS, self._etcd.answering(through, endpoints))

    async def _expiry(self, machine: Machine) -> datetime | None:
        read = self._connections.run(machine, root("cat", *CERTIFICATES))
        answer = await _within(HOST_SECONDS, read)
        try:
            found = x509.load_pem_x509_certificates(answer.out.encode()) if answer else []
        except ValueError:
            return None
        return min((each.not_valid_after_utc for each in found), default=None)


async def _within(seconds: float, answer: Awaitable[Answered]) -> Answered | None:
    """The answer; None if there is none in that time."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except (DomainError, TimeoutError):
        return None
