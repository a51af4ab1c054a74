"""The books of machines that failed, so that nobody is given them again and again."""

from temporalio import activity

from domain.operation import OperationId
from domain.quarantine import MachineFailure
from store import quarantine


class Quarantine:
    def __init__(self, quarantine: quarantine.Quarantine) -> None:
        self._quarantine = quarantine

    @activity.defn(name="quarantine.shunned")
    async def shunned(self, operation: OperationId) -> tuple[str, ...]:
        """The machines, by their system ids, that an operation which begins now is not given."""
        activity.logger.debug("operation %s asks whom to shun", operation)
        return await self._quarantine.shunned()

    @activity.defn(name="quarantine.count")
    async def count(self, failure: MachineFailure) -> None:
        """Count a failure against its machine. Telling of the same one again changes nothing."""
        await self._quarantine.count(failure)
