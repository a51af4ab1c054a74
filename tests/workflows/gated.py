"""An operation that does nothing but stand before two gates, one after the other."""

from temporalio import workflow

from domain.cluster import ClusterPlan, Phase
from domain.operation import Brief, OperationId, Reached
from workflows.carrying_out import carry_out
from workflows.helm import helm

POOLS = ("a", "b")


@workflow.defn
class Gated:
    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._pass, failed=Phase.ERROR)

    async def _pass(self, _plan: ClusterPlan, brief: Brief) -> Reached:
        for pool in POOLS:
            await helm().approved(f"pool {pool}")
        return Reached.well(brief.operation, Phase.RUNNING, "passed")
