"""Looks into the machine pool now and then, so that what can never fit is refused at once."""

from temporalio import workflow
from temporalio.workflow import ActivityConfig

from activities.machines import Machines
from activities.sweeping import Sweeping
from workflows.books import book
from workflows.policies import LOOK
from workflows.steps import queue

ASKED = "all"
"""A step without an argument is refused: nothing in it is sealed, so anybody could ask for it."""


@workflow.defn
class Survey:
    @workflow.run
    async def run(self) -> None:
        config: ActivityConfig = {**LOOK, "task_queue": queue("machines")}
        stock = await workflow.execute_activity_method(Machines.stock, ASKED, **config)
        await book(Sweeping.restock, stock)
