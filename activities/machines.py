"""Bare metal: taken, installed and given back, one slot at a time."""

import structlog
from temporalio import activity

from activities.errors import never_final
from activities.waiting import until, until_true
from domain.errors import DomainError, Overdue, Unavailable
from domain.machine import Machine, Search, Slot
from domain.ports import ClusterMark, MachinePool, Spoilt, Stock
from domain.quarantine import FailedMachine

log = structlog.get_logger()


class Machines:
    def __init__(
        self, pool: MachinePool, failed_machine: FailedMachine = FailedMachine.RELEASE
    ) -> None:
        """`failed_machine`: what becomes of one that did not deploy."""
        self._pool = pool
        self._failed_machine = failed_machine

    @activity.defn(name="machines.allocate")
    async def allocate(self, search: Search) -> Machine:
        """Safe to repeat: what already carries the slot's name is adopted before more is taken."""
        return await self._pool.allocate(search)

    @activity.defn(name="machines.deploy")
    async def deploy(self, machine: Machine) -> Machine:
        """Safe to repeat: an installation under way or over is not begun again."""
        return await self._pool.deploy(machine)

    @activity.defn(name="machines.wait_deployed")
    async def wait_deployed(self, machine: Machine) -> Machine:
        """Only looks. Failed if the machine never will be deployed, or is no longer ours."""
        what = f"{machine.named} ({machine.hostname}) was installing itself"
        return await until(what, lambda: self._pool.deployed(machine))

    @activity.defn(name="machines.power_off")
    async def power_off(self, machine: Machine) -> None:
        """Safe to repeat. Ends once the machine is off."""
        await self._pool.power_off(machine)
        await self._wait_powered(machine, on=False)

    @activity.defn(name="machines.power_on")
    async def power_on(self, machine: Machine) -> None:
        """Safe to repeat. Ends once the machine is on, which is long before it answers."""
        await self._pool.power_on(machine)
        await self._wait_powered(machine, on=True)

    async def _wait_powered(self, machine: Machine, *, on: bool) -> None:
        """A machine that says all the while that it is not is past being switched."""

        async def switched() -> bool:
            return await self._pool.powered(machine) is on

        try:
            await until_true(f"{machine.named} was being powered {'on' if on else 'off'}", switched)
        except Overdue as error:
            named, reason = machine.named, "POWER_UNCHANGED"
            raise Overdue(error.message, subject=named, reason=reason) from error

    @activity.defn(name="machines.discard")
    async def discard(self, spoilt: Spoilt) -> None:
        """Safe to repeat. Let go of a machine that did not deploy: marked as broken if that is
        wanted and allowed, and else given back like any other. Never final."""
        if self._failed_machine is FailedMachine.MARK_BROKEN:
            try:
                await self._pool.mark_broken(spoilt)
            except Unavailable:
                raise
            except DomainError as error:
                log.warning("not marked as broken", machine=spoilt.named, why=error.message)
        await self.release(spoilt.machine.slot)

    @activity.defn(name="machines.release")
    async def release(self, slot: Slot) -> None:
        """Give back what the slot holds, and see it off. Never final: what MAAS refuses today an
        operator can put right tomorrow, and giving up would leak the machine."""
        try:
            await self._pool.release(slot)
            await until_true(f"{slot.name} was being released", lambda: self._pool.released(slot))
        except DomainError as error:
            raise never_final(error, slot.name) from error

    @activity.defn(name="machines.sweep")
    async def sweep(self, mark: ClusterMark) -> None:
        """Give back whatever carries the cluster's mark, known to us or not. Never final."""

        async def clean() -> bool:
            return not await self._pool.sweep(mark)

        try:
            await until_true(f"what is left of {mark.name} was being released", clean)
        except DomainError as error:
            raise never_final(error, mark.name) from error

    @activity.defn(name="machines.stock")
    async def stock(self, _asked: str = "") -> Stock:
        """Only looks. What it is given proves who asks; workflows of before give nothing."""
        return await self._pool.stock()
