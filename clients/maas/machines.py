"""Machines out of MAAS, one per slot, however often and from wherever they are asked for."""

import asyncio
import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from weakref import WeakValueDictionary

from clients.maas import seen
from clients.maas.seen import SeenMachine
from clients.maas.snapshot import FRESH_SECONDS, Snapshot
from clients.maas.transport import Maas
from domain.candidates import Candidate, in_order
from domain.cloud_init import user_data
from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable
from domain.machine import Erasing, Machine, Search, Slot
from domain.ports import ClusterMark, Spoilt, Stock
from domain.seen import MachineSeen
from domain.supplies import Supplies

CLUSTER, SLOT = "kaas-cluster", "kaas-machine"
"""The annotations by which people, and the sweep, know our machines."""

READY, ALLOCATED, DEPLOYING, DEPLOYED = "Ready", "Allocated", "Deploying", "Deployed"

ON_ITS_WAY = frozenset({"Releasing", "Disk erasing"})
"""What becomes Ready without our doing anything."""

GIVEN_UP = frozenset({"Releasing failed", "Failed disk erasing"})
"""What should have, and did not. While disks are erased, and if that fails, MAAS keeps the slot's
name on a machine that is not the slot's any more."""

UNUSED = frozenset({ALLOCATED, "Failed deployment"})
"""What never ran, so that nothing of a cluster is on its disks. What could not be installed may be
unable to boot, too, and MAAS waits for ever for disks to be erased."""

RETURNING = ("releasing", "disk_erasing", "failed_releasing", "failed_disk_erasing")
TAKEN = ("allocated", "deploying", "deployed", "failed_deployment", "broken", *RETURNING)
SUITABLE = ("ready", "allocated", "deploying", "deployed")
"""How lists are filtered: by other words than those that MAAS shows."""

UNFIT = frozenset({"New", "Commissioning", "Failed commissioning", "Missing", "Retired"})
"""Machines that nobody could be given."""

POWERED = {"on": True, "off": False}
"""What a machine's controller may say that helps; it may also say that it does not know."""

ERASE: dict[Erasing, dict[str, str]] = {
    Erasing.NONE: {},
    Erasing.QUICK: {"erase": "true", "quick_erase": "true"},
    Erasing.SECURE: {"erase": "true", "secure_erase": "true"},
    Erasing.FULL: {"erase": "true"},
}
"""What MAAS is told about disks with a release."""

LONGEST_COMMENT = 250

CANDIDATES = 10
"""How many machines are tried for before we say that there is none: others were faster."""


class MaasMachines:
    """`domain.ports.MachinePool` over one region.

    A machine carries its slot's agent name from the moment it is taken, because MAAS writes that
    in one step; so whoever asks again finds it, and nothing that we took can be lost."""

    def __init__(
        self,
        maas: Maas,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        erase: Erasing = Erasing.NONE,
        supplies: Supplies | None = None,
    ) -> None:
        """`fresh_seconds` is how old what `seen` answers may be, `erase` what becomes of the disks
        of what was deployed and is given back, `supplies` where machines get things from."""
        self._supplies = supplies or Supplies()
        self._maas = maas
        self._erase = ERASE[erase]
        self._snapshot = Snapshot(self._list, fresh_seconds=fresh_seconds)
        self._choosing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def allocate(self, search: Search) -> Machine:
        """See the port. What the slot holds and should avoid is given back on the way."""
        slot = search.slot
        # one slot of a cluster at a time, so that the next one sees which zones are taken
        lock = self._choosing.setdefault(slot.cluster_uid, asyncio.Lock())
        async with lock:
            held = await self._held(slot)
            spent = (one.system_id for one in held if one.status_name in GIVEN_UP)
            search = search.model_copy(update={"avoid": (*search.avoid, *spent)})
            await self._give_back(one for one in held if one.system_id in search.avoid)
            if not [one for one in held if one.system_id not in search.avoid]:
                await self._take_one(search)
                held = await self._held(slot)
            return await self._keep_one(search, held)

    async def _take_one(self, search: Search) -> None:
        """Take the best machine there is. Somebody else may be faster, so we try several."""
        slot = search.slot
        free, neighbours = await self._survey(slot)
        for candidate in islice(in_order(search, free, neighbours), CANDIDATES):
            try:
                await self._maas.insist(
                    "machines/",
                    "allocate",
                    system_id=candidate.system_id,
                    agent_name=slot.agent_name,
                    comment=f"Windlass: {slot.name} of cluster {slot.cluster}",
                )
                return
            except Conflict:  # taken: by somebody else, or by another attempt of ours
                if await self._held(slot):
                    return
            except Unavailable:  # it may have happened all the same
                if await self._held(slot):
                    return
                raise
        wanted = f"machine tagged {slot.instance_type}" if slot.instance_type else "machine"
        shunned = {one.system_id for one in free} & set(search.avoid)
        but = f", but for {len(shunned)} that failed before" if shunned else ""
        raise Unavailable(
            f"MAAS has no free {wanted} for {slot.name}{but}",
            subject=slot.name,
            reason="NO_MACHINE_FREE",
            do="add or release machines, or wait for one",
        )

    async def _survey(self, slot: Slot) -> tuple[list[Candidate], Counter[str]]:
        """What is free for the slot, and in which zones its neighbours are."""
        tags = [slot.instance_type] if slot.instance_type else []
        machines = await self._list(status=SUITABLE, tags=tags)
        free = [
            Candidate(system_id=one.system_id, zone=one.zone.name, cost=one.cost)
            for one in machines
            if one.status_name == READY
        ]
        pool = slot.name.rpartition("-")[0]
        neighbours = Counter(
            one.zone.name
            for one in machines
            if one.annotations.get(CLUSTER) == slot.cluster_uid
            and one.annotations.get(SLOT, "").rpartition("-")[0] == pool
        )
        return free, neighbours

    async def _keep_one(self, search: Search, held: Sequence[SeenMachine]) -> Machine:
        """Settle on one of what carries the slot's name. A late attempt may have taken a second
        one; whoever looks then keeps the same: what was settled on before, which its annotations
        tell, then what is further along, then the lowest id."""
        slot = search.slot
        marks = _marks(slot)
        ours = sorted(
            (one for one in held if one.system_id not in search.avoid),
            key=lambda one: (
                not _marked(one, marks),
                one.status_name == ALLOCATED,
                one.system_id,
            ),
        )
        if not ours:
            raise Unavailable(
                f"the machine for {slot.name} was taken away in MAAS at once", subject=slot.name
            )
        kept, *others = ours
        await self._give_back(others)
        if not _marked(kept, marks):
            path = f"machines/{kept.system_id}/"
            await self._maas.post(path, "set_workload_annotations", **marks)
        return kept.filling(slot)

    async def deploy(self, machine: Machine) -> Machine:
        """See the port. When the order's answer is lost, what became of it is looked up."""
        slot = machine.slot
        found = await self._ours(machine)
        if found.status_name == ALLOCATED:
            path, text = f"machines/{machine.system_id}/", user_data(slot, self._supplies)
            try:
                body = await self._maas.post(
                    path,
                    "deploy",
                    distro_series=slot.release.series,
                    user_data=base64.b64encode(text.encode()).decode(),
                    comment=f"Windlass: {slot.name} of cluster {slot.cluster}",
                )
                found = seen.read(seen.MACHINE, body, f"POST {path}?op=deploy")
            except (Conflict, Unavailable) as error:
                found = await self._ours(machine)
                if found.status_name == ALLOCATED:
                    raise _later(error) from error
        if found.status_name not in (DEPLOYING, DEPLOYED):
            raise _spoilt(machine, found)
        return found.filling(slot)

    async def deployed(self, machine: Machine) -> Machine | None:
        """See the port. Deployed means that the system was asked for, not that it answers."""
        found = await self._ours(machine)
        if found.status_name not in (DEPLOYING, DEPLOYED):
            raise _spoilt(machine, found)
        if found.status_name == DEPLOYING or not found.address:
            return None
        return found.filling(machine.slot)

    async def power_off(self, machine: Machine) -> None:
        """See the port. Hard: what runs there does not answer, or it would not be restarted."""
        await self._switch(machine, "power_off", stop_mode="hard")

    async def power_on(self, machine: Machine) -> None:
        await self._switch(machine, "power_on")

    async def _switch(self, machine: Machine, op: str, **how: str) -> None:
        """MAAS says that it is busy while it powers the machine; then it is asked again."""
        await self._ours(machine)
        path = f"machines/{machine.system_id}/"
        comment = f"Windlass: {machine.slot.name} does not work"
        try:
            await self._maas.post(path, op, comment=comment, **how)
        except Conflict as error:
            raise _later(error) from error

    async def powered(self, machine: Machine) -> bool:
        """See the port. Answered by the machine's own controller, so it may take seconds."""
        call = f"machines/{machine.system_id}/"
        body = await self._maas.get(call, op="query_power_state")
        state = seen.read(seen.POWER, body, f"GET {call}?op=query_power_state").state
        if state not in POWERED:
            raise Failed(
                f"MAAS cannot tell whether {machine.system_id} of {machine.slot.name} is on: "
                f"its power is {state or 'unknown'}",
                subject=machine.slot.name,
                reason="POWER_UNKNOWN",
                do="look at the power configuration of the machine in MAAS",
            )
        return POWERED[state]

    async def mark_broken(self, spoilt: Spoilt) -> None:
        """See the port. MAAS takes the machine from its owner with it."""
        machine = spoilt.machine
        held = await self._held(machine.slot)
        if machine.system_id not in {one.system_id for one in held}:
            return
        path = f"machines/{machine.system_id}/"
        said = f"Windlass: it let {machine.slot.name} of {machine.slot.cluster} down: {spoilt.why}"
        with suppress(NotFound):
            await self._maas.post(path, "mark_broken", comment=said[:LONGEST_COMMENT])

    async def release(self, slot: Slot) -> None:
        """See the port. Fails as Unavailable only: an undo must be able to be tried for ever."""
        with _patience():
            await self._give_back(await self._held(slot))

    async def released(self, slot: Slot) -> bool:
        """See the port. What MAAS gave up releasing is released once more on the way, and told."""
        marks = _marks(slot)
        with _patience():
            held = await self._held(slot)
            returning = [one for one in await self._list(status=RETURNING) if _marked(one, marks)]
            stuck = [one for one in returning if one.status_name in GIVEN_UP]
            if left := await self._give_back(stuck):
                named = ", ".join(
                    f"{one.system_id} ({one.hostname}) is {one.status_name}"
                    for one in stuck
                    if one.system_id in left
                )
                raise Unavailable(
                    f"MAAS gave up releasing what {slot.name} held, and is told to again: {named}",
                    subject=slot.name,
                    reason="MAAS_GAVE_UP",
                    do="look at the machine's power configuration in MAAS",
                )
        return not held and not returning

    async def sweep(self, mark: ClusterMark) -> tuple[str, ...]:
        """See the port. Looks by the slots' names and by annotation: either may be missing, the
        one if a slot was forgotten, the other if we died between taking and annotating."""
        with _patience():
            names = [slot.agent_name for slot in mark.slots]
            by_name = await asyncio.gather(*(self._list(agent_name=name) for name in names))
            carrying = {one.system_id: one for held in by_name for one in held}
            for one in await self._list(status=TAKEN):
                if one.annotations.get(CLUSTER) == mark.uid:
                    carrying[one.system_id] = one
            waiting = {name for name, one in carrying.items() if one.status_name in ON_ITS_WAY}
            left = await self._give_back(
                one for name, one in carrying.items() if name not in waiting
            )
        return tuple(sorted(waiting | left))

    async def stock(self) -> Stock:
        """See the port. Machines that are broken now still count: they can be mended."""
        machines = [one for one in await self._list() if one.status_name not in UNFIT]
        tags = Counter(tag for one in machines for tag in set(one.tag_names))
        return Stock(machines=len(machines), tagged=dict(tags))

    async def seen(self, machines: Sequence[Machine]) -> tuple[MachineSeen, ...]:
        """See the port. Ours is what carries the slot's annotations: a release wipes them."""
        known = await self._snapshot.machines()
        return tuple(
            _told(machine.slot, known[machine.system_id])
            for machine in machines
            if machine.system_id in known
        )

    async def _held(self, slot: Slot) -> list[SeenMachine]:
        """What carries the slot's name and is not on its way back. MAAS blanks the name when a
        release is ordered, or if disks are erased first, when that is done."""
        carrying = await self._list(agent_name=slot.agent_name)
        return [one for one in carrying if one.status_name not in ON_ITS_WAY]

    async def _ours(self, machine: Machine) -> SeenMachine:
        """The machine, if it still fills its slot: MAAS shows no agent name but can be asked."""
        name = machine.slot.agent_name
        for one in await self._list(id=machine.system_id, agent_name=name):
            if one.system_id == machine.system_id and one.status_name not in ON_ITS_WAY:
                return one
        raise Failed(
            f"machine {machine.system_id} of {machine.slot.name} was released by hand",
            subject=machine.slot.name,
            reason="MACHINE_LOST",
        )

    async def _list(self, **query: str | Sequence[str]) -> list[SeenMachine]:
        body = await self._maas.get("machines/", **query)
        return seen.read(seen.MACHINES, body, "GET machines/")

    async def _give_back(self, machines: Iterable[SeenMachine]) -> set[str]:
        """Release all of them, as far as possible, and name those that are not Ready at once.
        What is gone is given back. Any trouble is Unavailable, once all have been tried."""
        left: set[str] = set()
        trouble: DomainError | None = None
        for one in machines:
            path = f"machines/{one.system_id}/"
            try:
                erase = {} if one.status_name in UNUSED else self._erase
                comment = "Windlass gives it back"
                body = await self._maas.post(path, "release", comment=comment, **erase)
                if seen.read(seen.MACHINE, body, f"POST {path}?op=release").status_name != READY:
                    left.add(one.system_id)
            except NotFound:
                continue
            except DomainError as error:
                trouble = error
        if trouble is not None:
            raise _later(trouble) from trouble
        return left


@contextmanager
def _patience() -> Iterator[None]:
    """An undo must be able to be tried for ever, so nothing that stops it here is final: somebody
    may renew a key, or unlock a machine."""
    try:
        yield
    except DomainError as error:
        raise _later(error) from error


def _later(error: DomainError) -> Unavailable:
    return Unavailable(error.message, subject=error.subject, reason=error.reason, do=error.do)


def _marked(one: SeenMachine, marks: dict[str, str]) -> bool:
    return marks.items() <= one.annotations.items()


def _marks(slot: Slot) -> dict[str, str]:
    return {CLUSTER: slot.cluster_uid, SLOT: slot.name}


def _told(slot: Slot, found: SeenMachine) -> MachineSeen:
    return MachineSeen(
        slot=slot.name,
        system_id=found.system_id,
        hostname=found.hostname,
        status=found.status_name,
        power=found.power_state,
        address=found.address,
        ours=_marked(found, _marks(slot)),
    )


def _spoilt(machine: Machine, found: SeenMachine) -> Failed:
    """The machine will not get there. MAAS's own words say why, if it has any."""
    because = f": {found.status_message}" if found.status_message else ""
    return Failed(
        f"machine {found.system_id} of {machine.slot.name} is {found.status_name} in MAAS{because}",
        subject=machine.slot.name,
        reason="MACHINE_SPOILT",
        facts={"system_id": found.system_id, "status": found.status_name},
    )
