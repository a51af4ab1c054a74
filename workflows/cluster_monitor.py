"""Looks after one cluster for as long as it stands, so that its status is always true."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception
from temporalio.workflow import ActivityConfig

from activities.healing import Healing
from activities.tending import Tending
from activities.watching import Patrol, Watching
from domain.seen import Tour
from workflows.books import book
from workflows.policies import LOOK, RAREST_LOOK, TOURING, TOURS_PER_RUN
from workflows.steps import queue


@workflow.defn
class ClusterMonitor:
    """Tour after tour of looks. A tour that brings news, or has lasted some minutes, is written
    down, what the cluster needs and what its policy says is done, and the next one sets out. It
    ends with the cluster.

    It knows nothing but the cluster's uid: whatever becomes of it, another under the same id goes
    on where it was. While an operation runs the tours go on and find nothing."""

    @workflow.run
    async def run(self, cluster: str) -> None:
        rested = True
        for _ in range(TOURS_PER_RUN):
            tour = await self._tour(Patrol(uid=cluster, rested=rested))
            if tour.over or not await book(Tending.record, tour):
                return
            await self._keep_up(tour)
            await book(Healing.consider, cluster)
            rested = not tour.is_news
            if workflow.info().is_continue_as_new_suggested():
                break
        workflow.continue_as_new(cluster)

    async def _keep_up(self, tour: Tour) -> None:
        """What does not succeed is found again by the next tour."""
        config: ActivityConfig = {**LOOK, "task_queue": queue("watching")}
        patrol = Patrol(uid=tour.uid)
        try:
            if tour.astray:
                led = await workflow.execute_activity_method(Watching.lead, patrol, **config)
                await book(Tending.led, led)
            if tour.expiring:
                await workflow.execute_activity_method(Watching.renew_access, patrol, **config)
            if tour.reopened:
                await workflow.execute_activity_method(Watching.disown, patrol, **config)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("%s is not kept up: %s", tour.uid, error.cause)

    async def _tour(self, patrol: Patrol) -> Tour:
        """Trouble that no try mends is somebody's bug or the like: others are looked after
        meanwhile, and this cluster once it is mended."""
        config: ActivityConfig = {**TOURING, "task_queue": queue("watching")}
        while True:
            try:
                return await workflow.execute_activity_method(Watching.tour, patrol, **config)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                workflow.logger.warning("a tour of %s failed: %s", patrol.uid, error.cause)
                await workflow.sleep(RAREST_LOOK)
