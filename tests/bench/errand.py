"""A workflow with one activity and one signal."""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def ask(_name: str) -> None:
    """What somebody else is asked for."""


@workflow.defn
class BareErrand:
    """Asks, and waits to be told."""

    def __init__(self) -> None:
        self._told = False

    @workflow.run
    async def run(self, name: str) -> None:
        await workflow.execute_activity(ask, name, start_to_close_timeout=timedelta(seconds=60))
        await workflow.wait_condition(lambda: self._told)

    @workflow.signal
    def tell(self) -> None:
        self._told = True
