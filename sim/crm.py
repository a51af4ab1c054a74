"""A resource manager to practise on: the real one, on the platform that only remembers, and what
shall go wrong with it.

Its work is called `crm create cluster NAME`, `crm delete app NAME in CLUSTER` and so on; before it
takes a piece of work up, that is `crm hear create cluster NAME`. Of the ways to go wrong:

    SLOW        it takes `seconds` longer
    HANG        at `hear`: it is silent, as if it had never been asked; else it never gets done
    REFUSE      it fails with `message`, as does FAIL
    DROP        its connection is lost, and it goes on
    REBOOT      it is started anew, and has forgotten what it had begun
"""

import asyncio

from agent.crm.crm import Crm
from agent.crm.simulated import Simulated
from domain.errors import Failed
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from sim.faults import NEVER_SECONDS, Faults, How


class Mishaps:
    """What a plan of faults makes go wrong with a resource manager."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._crm: Crm | None = None
        self._restarting: set[asyncio.Task[None]] = set()

    def befall(self, crm: Crm) -> None:
        self._crm = crm

    async def meet(self, call: str) -> bool:
        fault = self._faults.meet(f"crm {call}")
        if fault is None:
            return True
        match fault.how:
            case How.SLOW:
                await asyncio.sleep(fault.seconds)
            case How.HANG if call.startswith("hear "):
                return False
            case How.HANG:
                await asyncio.sleep(NEVER_SECONDS)
            case How.DROP if self._crm is not None:
                self._crm.stream.lose()
            case How.REBOOT if self._crm is not None:
                self._restart(self._crm)
                await asyncio.sleep(NEVER_SECONDS)  # the restart ends it
            case _:
                raise Failed(fault.message)
        return True

    def _restart(self, crm: Crm) -> None:
        """Restart it behind the back of the work that met this, which is ended by it."""
        task = asyncio.create_task(crm.restart())
        self._restarting.add(task)
        task.add_done_callback(self._restarting.discard)


def practice(
    cloudlet: CloudletKey, controllers: list[str], faults: Faults, seconds: float = 0.0
) -> Crm:
    """A resource manager whose every piece of work takes so long, and goes wrong as planned."""
    mishaps = Mishaps(faults)
    crm = Crm(cloudlet, Simulated(seconds), controllers, mishaps)
    mishaps.befall(crm)
    return crm
