"""What may be done with machines. Every order is one step: it is taken whole, or not at all."""

import base64
import binascii
import re
from typing import Any

from sim.maas.call import Call, Refusal
from sim.maas.constraints import CONSTRAINTS, check_names, chosen, nothing_left
from sim.maas.events import Events
from sim.maas.machine import DEPLOYABLE, RELEASABLE, USER, Machine, Status
from sim.maas.machines import Machines
from sim.maas.turns import Turns

SERIES = ("bionic", "focal", "jammy", "noble")
KERNEL = re.compile(r"(ga|hwe)-\d\d\.\d\d(-lowlatency|-edge)?")
ABORTABLE = frozenset({Status.DEPLOYING, Status.DISK_ERASING})


class Orders:
    """Changes of machines on behalf of the one user, to whom only their own and free ones yield."""

    def __init__(self, machines: Machines, turns: Turns, events: Events) -> None:
        self._machines, self._turns, self._events = machines, turns, events

    def allocate(self, call: Call) -> dict[str, Any]:
        """The cheapest match becomes the caller's. Nothing can come between finding and taking."""
        check_names(call.parameters)
        self._machines.vocabulary.check(call.parameters)
        free = (
            machine for machine in self._machines.all.values() if machine.status is Status.READY
        )
        fitting = chosen(free, call.parameters, CONSTRAINTS)
        if not fitting:
            raise nothing_left(call.parameters)
        machine = min(fitting, key=lambda fit: (fit.cost, fit.number))
        if not call.says("dry_run"):
            self._take(machine, USER, call)
        return self._machines.view(machine) | {"constraints_by_type": {}}

    def _take(self, machine: Machine, owner: str, call: Call | None = None) -> None:
        """Status, owner and agent name change in one step."""
        machine.status, machine.owner = Status.ALLOCATED, owner
        machine.agent_name = call.one("agent_name") if call else ""
        self._turns.keep(machine)
        self._events.add(machine, "User acquiring node", call.one("comment") if call else "")

    def hand_over(self, system_id: str, owner: str) -> None:
        """Somebody else takes a machine, as a person at the web page could."""
        self._take(self._machines.all[system_id], owner)

    def deploy(self, call: Call) -> dict[str, Any]:
        """Checks come first, so that a machine taken on the way is not left behind by a refusal."""
        machine = self._machines.found(call)
        if machine.status is not Status.READY:
            self._owned(call)
        if machine.status not in DEPLOYABLE:
            raise Refusal(
                409, f"Can't deploy a machine that is in the '{machine.status.said}' state"
            )
        series, kernel = _series(call.one("distro_series")), _kernel(call.one("hwe_kernel"))
        user_data = _decoded(call.one("user_data"))
        if machine.status is Status.READY:
            self._take(machine, USER, call)
        machine.series, machine.hwe_kernel, machine.user_data = series, kernel, user_data
        self._turns.deploy(machine)
        return self._machines.view(machine)

    def release(self, call: Call) -> dict[str, Any]:
        machine = self._machines.found(call)
        if machine.status not in (Status.READY, Status.RELEASING):
            if machine.owner:
                self._owned(call)
            if machine.status not in RELEASABLE or machine.locked:
                state = "Locked" if machine.locked else machine.status.said
                raise Refusal(409, f"Machine cannot be released in its current state ('{state}').")
            self._turns.release(machine, erase=call.says("erase"))
        return self._machines.view(machine)

    def release_all(self, call: Call) -> list[str]:
        """Several at once, or none of them."""
        ids = dict.fromkeys(call.all("machines"))
        if unknown := [system_id for system_id in ids if system_id not in self._machines.all]:
            raise Refusal(400, f"Unknown machine(s): {', '.join(unknown)}.")
        asked = [machine for machine in self._machines.all.values() if machine.system_id in ids]
        if foreign := [m.system_id for m in asked if m.owner not in ("", USER)]:
            raise Refusal(
                403,
                "You don't have the required permission to release the following machine(s): "
                f"{', '.join(foreign)}.",
            )
        held = [machine for machine in asked if machine.status is not Status.READY]
        if stuck := [m for m in held if m.status not in RELEASABLE]:
            said = ", ".join(f"{m.system_id} ('{m.status.said}')" for m in stuck)
            raise Refusal(409, f"Machine(s) cannot be released in their current state: {said}.")
        for machine in held:
            self._turns.release(machine)
        return [machine.system_id for machine in held]

    def mark_broken(self, call: Call) -> dict[str, Any]:
        machine = self._owned(call)
        machine.status, machine.message = Status.BROKEN, call.one("comment")
        machine.owner = machine.agent_name = ""
        machine.annotations = {}
        self._turns.retire(machine)
        self._events.add(machine, "Marking node broken", machine.message)
        return self._machines.view(machine)

    def mark_fixed(self, call: Call) -> dict[str, Any]:
        machine = self._machines.found(call)
        if machine.status is not Status.BROKEN:
            raise Refusal(409, f"Can't mark a non-broken machine as fixed: {machine.status.said}")
        machine.status, machine.message = Status.READY, ""
        self._turns.keep(machine)
        return self._machines.view(machine)

    def annotate(self, call: Call) -> dict[str, Any]:
        """An empty value takes the annotation away."""
        machine = self._owned(call)
        given = {name: values[-1] for name, values in call.parameters.items()}
        merged = machine.annotations | given
        machine.annotations = {name: value for name, value in merged.items() if value}
        self._turns.keep(machine)
        return self._machines.view(machine)

    def abort(self, call: Call) -> dict[str, Any]:
        machine = self._owned(call)
        if machine.status not in ABORTABLE:
            raise Refusal(409, f"Unable to abort: machine is in the '{machine.status.said}' state.")
        deploying = machine.status is Status.DEPLOYING
        machine.status = Status.ALLOCATED if deploying else Status.FAILED_DISK_ERASING
        machine.series = machine.hwe_kernel = machine.user_data = machine.doom = ""
        self._turns.retire(machine)
        self._events.add(machine, "Aborted", call.one("comment"))
        return self._machines.view(machine)

    def lock(self, call: Call) -> dict[str, Any]:
        return self._set_lock(call, locked=True)

    def unlock(self, call: Call) -> dict[str, Any]:
        return self._set_lock(call, locked=False)

    def _set_lock(self, call: Call, *, locked: bool) -> dict[str, Any]:
        machine = self._owned(call)
        if machine.status is not Status.DEPLOYED or machine.locked is locked:
            verb, state = ("lock", "unlocked") if locked else ("unlock", "locked")
            raise Refusal(409, f"Can't {verb} machine, it's not a deployed, {state} one.")
        machine.locked = locked
        self._turns.keep(machine)
        return self._machines.view(machine)

    def power_on(self, call: Call) -> dict[str, Any]:
        return self._set_power(call, on=True)

    def power_off(self, call: Call) -> dict[str, Any]:
        return self._set_power(call, on=False)

    def _set_power(self, call: Call, *, on: bool) -> dict[str, Any]:
        machine = self._owned(call)
        if self._turns.moving(machine):
            raise Refusal(
                503, "Unable to change power state: another action is in progress.", retry_after=10
            )
        if machine.powered is not on:
            self._turns.power(machine, on=on)
        return self._machines.view(machine)

    def forbid(self, _: Call) -> None:
        raise Refusal(403, "User is not allowed access to this API.")

    def _owned(self, call: Call) -> Machine:
        machine = self._machines.found(call)
        if machine.owner != USER:
            raise Refusal(403, "You don't have the required permission on this machine.")
        return machine


def _series(given: str) -> str:
    """The series to install, with or without its system in front."""
    system, _, series = (given or "jammy").rpartition("/")
    if system in ("", "ubuntu") and series in SERIES:
        return series
    offered = ", ".join(f"'ubuntu/{name}'" for name in SERIES)
    wrong = f"'{given}' is not a valid distro_series.  It should be one of: {offered}."
    raise Refusal(400, {"distro_series": [wrong]})


def _kernel(given: str) -> str:
    if given and not KERNEL.fullmatch(given):
        raise Refusal(400, {"hwe_kernel": [f"{given} has no kernels available."]})
    return given


def _decoded(user_data: str) -> str:
    """User data as the machine will be served it. Whoever sent it may have broken its lines."""
    try:
        return base64.b64decode(user_data).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Refusal(400, "Failed to decode user_data: it is not base64 of a text.") from None
