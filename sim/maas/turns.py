"""How machines get from what they are to what was asked: installing, powering down, erasing.

A request writes down what shall be and when it will be so; the turn waits for that time and makes
it so. Everything a turn needs is in the machine's record, so that after a kill it goes on from
there."""

import asyncio
from collections.abc import Awaitable, Callable

from sim.faults import Fault, Faults, How
from sim.ledger import Ledger
from sim.maas.events import Events
from sim.maas.machine import Machine, Status
from sim.metal import Hosts, Installed
from sim.pace import Clock, Pace

NODE_TIMEOUT = 30 * 60.0
"""How long MAAS believes a machine that installs itself without a word."""

RELEASE_TIMEOUT = 5 * 60.0


class Turns:
    """The machines' transitions, at most one at a time for each. A new one ends the old one."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        events: Events,
        hosts: Hosts,
        faults: Faults,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._ledger, self._events, self._hosts = ledger, events, hosts
        self._faults, self._clock, self._pace = faults, clock, pace
        self._under_way: dict[str, list[asyncio.Task[None]]] = {}

    def keep(self, machine: Machine) -> None:
        self._ledger.keep("maas-machine", machine.system_id, machine)

    def resume(self, machine: Machine) -> None:
        """Take up what a machine was in the middle of when the process ended."""
        if turn := self._turn_of(machine.status):
            self._begin(machine, turn)

    async def stop(self) -> None:
        """Let go of everything as it stands."""
        tasks = [task for tasks in self._under_way.values() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def deploy(self, machine: Machine) -> None:
        """Order an installation."""
        machine.status, machine.powered = Status.DEPLOYING, True
        self._schedule(machine, "deploy", self._pace.deploy, NODE_TIMEOUT)
        self._events.add(machine, "Deploying")
        self._begin(machine, self._install)

    def release(self, machine: Machine, *, erase: bool = False) -> None:
        """Order a release. Power that is off already makes the machine Ready at once.

        The agent name goes now, or if disks are erased first, when that is done; owner and
        annotations go when the machine is Ready."""
        ran = bool(machine.series)
        machine.agent_name = machine.agent_name if erase else ""
        machine.user_data = machine.series = machine.hwe_kernel = ""
        machine.message, machine.claimed, machine.locked = "", False, False
        machine.status = Status.DISK_ERASING if erase else Status.RELEASING
        self._events.add(machine, "Disk erasing" if erase else "Releasing")
        if not machine.powered and not erase:
            self._begin(machine, self._wipe if ran else None)
            self._free(machine)
            return
        self._schedule(machine, "release", self._pace.release, RELEASE_TIMEOUT)
        self._begin(machine, self._erase if erase else self._shut_down)

    def retire(self, machine: Machine) -> None:
        """Take a machine out of whatever it does: power off, disks forgotten."""
        machine.powered = machine.claimed = False
        self._begin(machine, self._wipe)

    def power(self, machine: Machine, *, on: bool) -> None:
        """Order power on or off for a machine that is in no transition."""
        machine.powered = on
        self.keep(machine)
        self._events.add(machine, "Powering on" if on else "Powering off")
        if machine.status is Status.DEPLOYED:
            self._begin(machine, self._switch)

    def moving(self, machine: Machine) -> bool:
        return self._turn_of(machine.status) is not None

    def _turn_of(self, status: Status) -> "Callable[[Machine], Awaitable[None]] | None":
        return {
            Status.DEPLOYING: self._install,
            Status.RELEASING: self._shut_down,
            Status.DISK_ERASING: self._erase,
        }.get(status)

    def _schedule(self, machine: Machine, what: str, seconds: float, limit: float) -> None:
        """Write down when a transition ends and, if a fault befalls it, how badly."""
        machine.doom = ""
        match self._faults.meet(f"{what} {machine.system_id}"):
            case Fault(how=How.SLOW, seconds=longer):
                seconds += longer
            case Fault(how=How.HANG):
                seconds, machine.doom = limit, f"Node operation timed out after {limit / 60:.0f}m"
            case Fault(message=message):
                machine.doom = message
        machine.due = self._clock.now() + seconds
        self.keep(machine)

    def _begin(self, machine: Machine, turn: Callable[[Machine], Awaitable[None]] | None) -> None:
        self.keep(machine)
        earlier = [t for t in self._under_way.pop(machine.system_id, []) if not t.done()]
        for task in earlier:
            task.cancel()
        if turn is not None:
            task = asyncio.create_task(_after(earlier, machine, turn))
            task.add_done_callback(_report)
            self._under_way[machine.system_id] = [*earlier, task]

    async def _until_due(self, machine: Machine) -> None:
        await self._clock.sleep(max(0.0, machine.due - self._clock.now()))

    async def _install(self, machine: Machine) -> None:
        """Addresses are claimed now, after the order was answered."""
        if not machine.claimed:
            machine.claimed = True
            self.keep(machine)
        await self._until_due(machine)
        if machine.doom:
            self._end(machine, Status.FAILED_DEPLOYMENT)
            return
        await self._hosts.boot(
            Installed(
                system_id=machine.system_id,
                hostname=machine.hostname,
                address=machine.address,
                series=machine.series,
                user_data=machine.user_data,
            )
        )
        self._end(machine, Status.DEPLOYED)

    async def _shut_down(self, machine: Machine) -> None:
        await self._hosts.wipe(machine.system_id)
        await self._until_due(machine)
        if machine.doom:
            self._end(machine, Status.FAILED_RELEASING)
        else:
            self._free(machine)

    async def _erase(self, machine: Machine) -> None:
        await self._hosts.wipe(machine.system_id)
        await self._until_due(machine)
        if machine.doom:
            self._end(machine, Status.FAILED_DISK_ERASING)
            return
        machine.agent_name = ""
        machine.status, machine.due = Status.RELEASING, self._clock.now() + self._pace.release
        self.keep(machine)
        await self._until_due(machine)
        self._free(machine)

    async def _wipe(self, machine: Machine) -> None:
        await self._hosts.wipe(machine.system_id)

    async def _switch(self, machine: Machine) -> None:
        switch = self._hosts.power_on if machine.powered else self._hosts.power_off
        await switch(machine.system_id)

    def _end(self, machine: Machine, status: Status) -> None:
        machine.status, machine.message, machine.doom = status, machine.doom, ""
        self.keep(machine)
        level = "ERROR" if machine.message else "INFO"
        self._events.add(machine, status.said, machine.message, level)

    def _free(self, machine: Machine) -> None:
        machine.status, machine.powered = Status.READY, False
        machine.owner, machine.annotations, machine.message = "", {}, ""
        self.keep(machine)
        self._events.add(machine, "Ready")


async def _after(
    earlier: list[asyncio.Task[None]],
    machine: Machine,
    turn: Callable[[Machine], Awaitable[None]],
) -> None:
    """Run a turn once the ones before it have ended: their last word must not follow ours."""
    if earlier:
        await asyncio.wait(earlier)
    await turn(machine)


def _report(task: asyncio.Task[None]) -> None:
    """A turn that broke is a bug of the site's. The machine stays as it is; the log says why."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "a turn broke", "exception": error})
