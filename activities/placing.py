"""The books of instances and of nodes that are emptied: what is due, and what was done."""

from datetime import timedelta

from temporalio import activity

from domain.errand import BOOKED, Emptying, Errand, Outcome, Stumble
from domain.errors import Unavailable
from domain.frozen import Frozen
from domain.instance import InstanceUid
from store import placing as stores
from store.draining import Draining
from store.neglect import Neglect

UNHEEDED = timedelta(seconds=5)
"""By then whoever wrote a wish has told its workflow, if it could."""

BOOKED_AT_ONCE = 8
"""A node is given up and another found, and then somebody has to be asked. More comes of others
who change the instance at that moment, and is left to the next try."""


class Asleep(Frozen):
    """What nobody looks after, though something is due."""

    instances: tuple[InstanceUid, ...] = ()
    draining: tuple[str, ...] = ()
    """Nodes that are being emptied, whether somebody is at it or not."""


class Placing:
    def __init__(self, placing: stores.Placing, draining: Draining, neglect: Neglect) -> None:
        self._placing = placing
        self._draining = draining
        self._neglect = neglect

    @activity.defn(name="placing.consider")
    async def consider(self, uid: InstanceUid) -> Errand:
        """What is due for an instance, once all is done that touches our own rows alone: a node was
        found for it, or one given up. Safe to repeat: what is done is no longer due."""
        errand = await self._placing.consider(uid)
        for _ in range(BOOKED_AT_ONCE):
            if errand.what not in BOOKED:
                return errand
            errand = await self._placing.settle(errand)
        raise Unavailable(f"instance {uid} is changed again and again", subject=uid)

    @activity.defn(name="placing.settle")
    async def settle(self, errand: Errand) -> None:
        """Find it a node, or give one up. Asked for by instances whose workflow was told so by a
        worker of before; since then `consider` does it."""
        await self._placing.settle(errand)

    @activity.defn(name="placing.done")
    async def done(self, outcome: Outcome) -> None:
        """Book what a node has done."""
        await self._placing.done(outcome)

    @activity.defn(name="placing.stumbled")
    async def stumbled(self, stumble: Stumble) -> None:
        """Book that a node did not do as it was asked."""
        await self._placing.stumbled(stumble)

    @activity.defn(name="placing.empty")
    async def empty(self, node: str) -> Emptying:
        """Tell some of what is on a node to leave, and say what still is there."""
        return await self._draining.step(node)

    @activity.defn(name="placing.look")
    async def look(self) -> Asleep:
        """What is due for instances and nodes, and has not been taken up."""
        return Asleep(
            instances=tuple(await self._neglect.unattended(UNHEEDED)),
            draining=tuple(await self._neglect.draining()),
        )
