"""A Ceph cluster as the domain knows it. Every change is read back before it is believed."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from clients.ceph.greetings import Greetings
from clients.ceph.hosts import hosts
from clients.ceph.identities import Identities
from clients.ceph.session import Session, unreadable
from clients.ceph.upgrades import RestUpgrades
from domain.errors import AlreadyExists, Conflict, DomainError, NotFound, Unavailable
from domain.ports import Vault
from domain.share import Identity, PoolMade, PoolWanted
from domain.storage import Observation
from domain.storage_answers import Answers, addresses, observed
from domain.storage_gates import is_marked
from domain.storage_mons import without
from domain.storage_plan import OsdMark, Renewal, Target
from domain.storage_ports import Upgrades

RULE = "replicated_rule"
APPLICATION = "rbd"
ATTRIBUTES = "pool,pool_name,type,size,application_metadata,quota_max_bytes"

SWITCH = "mon_allow_pool_delete"
"""Whether a mon lets pools be deleted. We turn it on for each mon by its name, where an operator's
own setting, for all mons or for all daemons, is neither read nor written; so there is nothing to be
put back, only what is ours to be taken away, and that may be done any number of times."""


class CephStorage:
    """One cluster, through its manager."""

    def __init__(
        self,
        session: Session,
        identities: Identities,
        vault: Vault,
        upgrades: Upgrades | None = None,
    ) -> None:
        """`upgrades`: who replaces its daemons, if that is not its own orchestrator."""
        self._session = session
        self._upgrades = upgrades or RestUpgrades(session)
        self._identities = identities
        self._vault = vault
        self._greetings = Greetings()
        self._known: dict[str, str] = {}
        """Where the mons were when it was looked last."""

    async def close(self) -> None:
        await self._session.close()

    async def observe(self) -> Observation:
        """As of when it is begun: of two looks the later one has seen what was done in between."""
        began = datetime.now(UTC)
        async with asyncio.TaskGroup() as asking:
            greeted = asking.create_task(self._greetings.silent(self._known))
            asked = asking.create_task(self._asked())
        answers, silent = asked.result(), greeted.result()
        if isinstance(answers, DomainError):
            raise answers
        try:
            seen = observed(answers, began)
            self._known = addresses(answers.health)
            return without(seen, silent)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise unreadable("GET health/full", f"a cluster's health ({error!r:.100})") from error

    async def _asked(self) -> Answers | DomainError:
        """All that one look asks for, or why it was not told."""
        try:
            health = await self._session.get("health/full")
            summary = await self._session.get("summary")
            gateways = await self._gateways(health)
            return Answers(health, summary, await hosts(self._session, summary), gateways)
        except DomainError as error:
            return error

    async def _gateways(self, health: Any) -> Any:
        """Who serves objects. The answer takes a gateway that answers, and is done without."""
        if not isinstance(health, dict) or not health.get("rgw"):
            return ()
        try:
            return await self._session.get("rgw/daemon")
        except DomainError:
            return ()

    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        try:
            there = await self._pool(wanted)
        except NotFound:
            await self._session.ask(
                "POST",
                "pool",
                {
                    "pool": wanted.name,
                    "pg_num": wanted.groups,
                    "pool_type": "replicated",
                    "rule_name": RULE,
                    "size": wanted.copies,
                    "application_metadata": [APPLICATION, wanted.mark],
                },
            )
            there = await self._pool(wanted)
        if not _is_ours(there, wanted):
            raise AlreadyExists(
                f"the pool {wanted.name} in Ceph is somebody else's: it does not carry "
                f"{wanted.mark}",
                subject=wanted.name,
                reason="CEPH_FOREIGN",
                do="look at it in Ceph; Windlass leaves it alone",
            )
        if there["quota_max_bytes"] != wanted.most_bytes:
            await self._session.ask("PUT", _path(wanted), {"quota_max_bytes": wanted.most_bytes})
            there = await self._pool(wanted)
        if there["quota_max_bytes"] != wanted.most_bytes:
            raise Unavailable(
                f"Ceph has not bounded the pool {wanted.name} yet", reason="CEPH_NOT_YET"
            )
        monmap = await self._monmap()
        return PoolMade(
            wanted=wanted,
            cluster=monmap["fsid"],
            mons=tuple(mon["public_addr"].partition("/")[0] for mon in monmap["mons"]),
        )

    async def _monmap(self) -> Any:
        return (await self._session.get("health/full"))["mon_status"]["monmap"]

    async def delete_pool(self, wanted: PoolWanted) -> None:
        """A worker that died while it did this left the switch on: whoever takes this up again
        turns it off, be the pool there or not."""
        mons = [f"mon.{mon['name']}" for mon in (await self._monmap())["mons"]]
        try:
            if not _is_ours(await self._pool(wanted), wanted):
                return
            for mon in mons:
                value = {"section": mon, "value": "true"}
                await self._session.ask("PUT", "cluster_conf", {"options": {SWITCH: value}})
            await self._delete(wanted)
        except NotFound:
            return
        finally:
            for mon in mons:
                await self._session.ask("DELETE", f"cluster_conf/{SWITCH}", query={"section": mon})

    async def _delete(self, wanted: PoolWanted) -> None:
        """Another deletion may have just ended and turned the switch off: then it is not yet."""
        try:
            await self._session.ask("DELETE", _path(wanted))
        except Conflict as error:
            raise Unavailable(error.message, reason="CEPH_NOT_YET") from error
        await self._pool(wanted)
        raise Unavailable(f"Ceph has not deleted the pool {wanted.name} yet", reason="CEPH_NOT_YET")

    async def _pool(self, wanted: PoolWanted) -> Any:
        return await self._session.get(_path(wanted), attrs=ATTRIBUTES)

    async def mark_osd(self, mark: OsdMark) -> None:
        """Ceph says yes to marks of OSDs that it does not have, and of others before they show."""
        if is_marked(await self.observe(), mark):
            return
        await self._session.ask("PUT", f"osd/{mark.id}/mark", {"action": mark.word})
        if not is_marked(await self.observe(), mark):
            raise Unavailable(
                f"Ceph has not marked {mark.named} {mark.word} yet", reason="CEPH_NOT_YET"
            )

    async def safe_to_destroy(self, osd: int) -> bool:
        said = await self._session.get("osd/safe_to_destroy", ids=f"[{osd}]")
        try:
            return osd in said["safe_to_destroy"]
        except (LookupError, TypeError) as error:
            raise unreadable("GET osd/safe_to_destroy", "a list of OSDs") from error

    async def begin_upgrade(self, target: Target) -> None:
        await self._upgrades.begin_upgrade(target)

    async def pause_upgrade(self) -> None:
        await self._upgrades.pause_upgrade()

    async def renewal(self) -> Renewal:
        return await self._upgrades.renewal()

    async def ensure_identity(self, identity: Identity) -> None:
        """The key goes from Ceph into the vault, and is seen by nobody between them."""
        key = await self._identities.ensure(identity)
        await self._vault.keep(identity.secret, key.encode())

    async def revoke_identity(self, identity: Identity) -> None:
        await self._identities.revoke(identity)


def _path(wanted: PoolWanted) -> str:
    return f"pool/{quote(wanted.name, safe='')}"


def _is_ours(there: Any, wanted: PoolWanted) -> bool:
    same = wanted.id in (0, there["pool"])
    return same and wanted.mark in there["application_metadata"]
