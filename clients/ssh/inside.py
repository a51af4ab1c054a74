"""What only a control plane's hosts know: how its etcd is, and when certificates expire."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from clients.ssh.access import Access
from clients.ssh.connections import Connections, root
from clients.ssh.etcd import Etcd
from domain.errors import DomainError
from domain.machine import Machine
from domain.seen import Inside, MemberSeen

CERTIFICATES = ("/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/etcd/server.crt")
"""One from each of kubeadm's two authorities. It signs, and renews, all of a host together."""


class Insides:
    def __init__(self, connections: Connections, etcd: Etcd, access: Access) -> None:
        self._connections = connections
        self._etcd = etcd
        self._access = access

    async def ask(self, control_planes: Sequence[Machine]) -> Inside:
        """What can be found out. A host that cannot be reached says nothing of its certificates,
        and others tell of its etcd."""
        expiries = await asyncio.gather(*map(self._expiry, control_planes))
        known = [
            (day, each.slot.name) for day, each in zip(expiries, control_planes, strict=True) if day
        ]
        expires, on = min(known, default=(None, ""))
        members = await self._members(control_planes)
        admitted = await self._access.until(control_planes[0].slot.cluster_uid)
        return Inside(members=members, expires=expires, expires_on=on, admitted_until=admitted)

    async def _members(self, control_planes: Sequence[Machine]) -> tuple[MemberSeen, ...] | None:
        """As the first host says that can say anything."""
        for through in control_planes:
            try:
                return await self._members_by(through, control_planes)
            except DomainError:
                continue
        return None

    async def _members_by(
        self, through: Machine, control_planes: Sequence[Machine]
    ) -> tuple[MemberSeen, ...]:
        """Without a majority etcd does not say whom it counts: then it is taken to be these."""
        try:
            counted = await self._etcd.members(through)
        except DomainError:
            at = {each.slot.name: f"https://{each.address}:2379" for each in control_planes}
            learners: set[str] = set()
        else:
            at = {
                member.name or " ".join(member.peers): next(iter(member.clients), "")
                for member in counted
            }
            learners = {member.name for member in counted if member.learner}
        asked = sorted(filter(None, at.values()))
        answering = await self._etcd.answering(through, asked)
        return tuple(
            MemberSeen(name=name, answers=endpoint in answering, learner=name in learners)
            for name, endpoint in sorted(at.items())
        )

    async def _expiry(self, machine: Machine) -> datetime | None:
        try:
            answer = await self._connections.run(machine, root("cat", *CERTIFICATES))
            found = x509.load_pem_x509_certificates(answer.out.encode())
        except (DomainError, ValueError):
            return None
        return min(each.not_valid_after_utc for each in found)
