"""The books by which a workflow learns what people wish of its operation."""

from datetime import timedelta

from temporalio import activity

from domain.frozen import Frozen
from domain.operation import OperationId
from store import steering as store
from store.steering import Passage, Wishes


class Glance(Frozen):
    """One of an operation's workflows looks at what is wished of all of them."""

    operation: OperationId
    heeds: bool
    """Whether it is the one that tells the others."""


class Arrival(Frozen):
    """An operation at a gate that somebody has to open."""

    operation: OperationId
    gate: str
    """What comes behind it, such as `pool w`."""


class Steering:
    def __init__(self, steering: store.Steering, *, approval: timedelta) -> None:
        """`approval`: how long a gate is stood before."""
        self._steering = steering
        self._approval = approval

    @activity.defn(name="steering.look")
    async def look(self, glance: Glance) -> Wishes:
        """Whether the operation is to take no further step for now."""
        return await self._steering.look(glance.operation, heeds=glance.heeds)

    @activity.defn(name="steering.arrive")
    async def arrive(self, arrival: Arrival) -> Passage:
        """Whether the operation may pass. One that waited too long is called off."""
        return await self._steering.arrive(arrival.operation, arrival.gate, self._approval)
