"""Upgrades of a Ceph cluster by its own orchestrator, through the manager's REST API. Managers have
had words for them since release 18, and an orchestrator only where cephadm set them up."""

import re
from typing import Any

from clients.ceph.hosts import hosts
from clients.ceph.session import Session, unreadable
from domain.errors import Conflict, NotFound, Unsupported
from domain.storage_answers import version, versions
from domain.storage_plan import Renewal, Target

PATH = "cluster/upgrade"
PROGRESS = re.compile(r"(\d+)/(\d+) daemons")


class RestUpgrades:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def begin_upgrade(self, target: Target) -> None:
        seen = await self.renewal()
        if seen.is_whole(target):
            return
        if not seen.running:
            await self._ask("POST", "start", {"version": target.version})
            return
        if f":v{target.version}" not in seen.image and target.version not in seen.image:
            raise Conflict(
                f"Ceph is on its way to {seen.image or 'another version'} already",
                subject=target.cluster,
                reason="CEPH_UPGRADING",
                do="let it end, or stop it in Ceph: ceph orch upgrade stop",
            )
        if seen.paused:
            await self._ask("PUT", "resume")

    async def pause_upgrade(self) -> None:
        seen = await self.renewal()
        if seen.running and not seen.paused:
            await self._ask("PUT", "pause")

    async def renewal(self) -> Renewal:
        said = await self._ask("GET", "status")
        summary = await self._session.get("summary")
        try:
            there = await hosts(self._session, summary)
            counted = PROGRESS.search(said.get("progress") or "")
            done, total = map(int, counted.groups()) if counted else (0, 0)
            return Renewal(
                version=version(summary["version"]),
                running=bool(said["in_progress"]),
                paused=bool(said.get("is_paused")),
                image=said.get("target_image") or "",
                done=done,
                total=total,
                versions=versions(there),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise unreadable(f"GET {PATH}/status", "an upgrade") from error

    async def _ask(self, method: str, what: str, body: dict[str, str] | None = None) -> Any:
        try:
            return await self._session.ask(method, f"{PATH}/{what}", body)
        except NotFound as error:
            raise Unsupported(
                "this release of Ceph has no upgrades in its REST API",
                reason="CEPH_NO_UPGRADES",
                do="upgrade it to 18 by its own means first",
            ) from error
