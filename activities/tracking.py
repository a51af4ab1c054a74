"""The books of instances at the edge: what their workflows learn of them, and do to them."""

from collections.abc import Awaitable

from temporalio import activity

from domain.awaiting import Outlook, Verdict
from domain.errors import DomainError, Failure
from domain.frozen import Frozen
from domain.operation import OperationId
from domain.record import Noun
from domain.refusal import Refusal
from store import tracking as store
from store.quotas import EXCEEDED

ANSWERS = frozenset({*Refusal.__members__, EXCEEDED})
"""Refusals that another try would meet again."""


class Eviction(Frozen):
    """What has to go before something else may."""

    operation: OperationId
    noun: Noun
    key: str


class TakenBack(Frozen):
    """An operation that did not end well, and why."""

    operation: OperationId
    failure: Failure


class Tracking:
    def __init__(self, tracking: store.Tracking) -> None:
        self._tracking = tracking

    @activity.defn(name="tracking.settle")
    async def settle(self, operation: OperationId) -> Outlook:
        """End the operation if its instance is as it was wanted; else, what there is to wait
        for."""
        return await self._tracking.settle(operation)

    @activity.defn(name="tracking.place")
    async def place(self, operation: OperationId) -> Outlook:
        """Write the instance that has waited for its cluster."""
        return await _or_refused(self._tracking.place(operation))

    @activity.defn(name="tracking.inside")
    async def inside(self, operation: OperationId) -> list[Eviction]:
        """What has to go before the cluster may."""
        keys = await self._tracking.inside(operation)
        return [Eviction(operation=operation, noun=Noun.APP_INST, key=key) for key in keys]

    @activity.defn(name="tracking.inhabitants")
    async def inhabitants(self, operation: OperationId) -> list[Eviction]:
        """What has to go before the cloudlet may."""
        found = await self._tracking.inhabitants(operation)
        return [Eviction(operation=operation, noun=noun, key=key) for noun, key in found]

    @activity.defn(name="tracking.demolish")
    async def demolish(self, operation: OperationId) -> Outlook:
        """Take the cloudlet away on which nothing is left."""
        return await _or_refused(self._tracking.demolish(operation))

    @activity.defn(name="tracking.evict")
    async def evict(self, eviction: Eviction) -> Outlook:
        """Have one of these deleted. While it is busy, the outlook says for how long to wait."""
        return await _or_refused(
            self._tracking.evict(eviction.operation, eviction.noun, eviction.key)
        )

    @activity.defn(name="tracking.proceed")
    async def proceed(self, operation: OperationId) -> Outlook:
        """Go on with the delete of a cluster in which nothing is left."""
        return await _or_refused(self._tracking.proceed(operation))

    @activity.defn(name="tracking.clear")
    async def clear(self, operation: OperationId) -> Outlook:
        """Have the cluster deleted that was made for what is deleted now."""
        return await _or_refused(self._tracking.clear(operation))

    @activity.defn(name="tracking.succeed")
    async def succeed(self, operation: OperationId) -> None:
        """End the operation well."""
        await self._tracking.succeed(operation)

    @activity.defn(name="tracking.take_back")
    async def take_back(self, taken: TakenBack) -> None:
        """Undo what can be undone, and end the operation."""
        await self._tracking.take_back(taken.operation, taken.failure)

    @activity.defn(name="tracking.ended")
    async def ended(self, operation: OperationId) -> Outlook:
        """Whether another operation is over, and what went wrong with it."""
        return await self._tracking.ended(operation)


async def _or_refused(work: Awaitable[Outlook]) -> Outlook:
    """What comes of it. A refusal of the contract or of a quota is an answer, which another try
    would give again, whatever its kind; a database that is away is not."""
    try:
        return await work
    except DomainError as error:
        if error.reason not in ANSWERS:
            raise
        return Outlook(verdict=Verdict.FAILED, failure=Failure.of(error))
