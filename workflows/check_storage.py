"""A look for newer versions of Ceph, as often as the schedule says."""

from temporalio import workflow

from activities.caring import Caring
from workflows.books import book


@workflow.defn
class CheckStorage:
    """Says whether there is a newer version; where that is wished, an upgrade to it is recorded as
    anybody's would be, and lives on its own."""

    @workflow.run
    async def run(self, cluster: str = "") -> str:
        """Schedules of before say which; their argument cannot be bound to a run of theirs."""
        return await book(Caring.consider, cluster)
