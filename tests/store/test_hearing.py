"""An operation whose instance is ready ends when that is heard, whatever its workflow knows."""

import pytest

from domain import key_text
from domain.awaiting import Verdict
from domain.operation import Stage
from domain.override import Override
from domain.standing import Report
from domain.tracking import Phase
from tests.store.desk import Desk
from tests.workflows.edge import appinst_key, described


@pytest.mark.parametrize("taken_up", [True, False])
async def test_ready_is_the_end_of_a_creation(desk: Desk, *, taken_up: bool) -> None:
    site = described(desk.database, desk.tail)
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    made = (await site.create_app()).operation.id
    key = key_text.appinst_text(appinst_key("shop", "blue"))
    if taken_up:
        await desk.operations.begin(made)

    assert await site.apps.observe(Report(key=key, phase=Phase.CREATING)) == made
    assert (await desk.operations.get(made)).ended is None
    waiting = await site.apps.observe(Report(key=key, phase=Phase.READY))

    assert (await desk.operations.get(made)).stage is Stage.SUCCEEDED
    assert waiting == (made if taken_up else None), "who has not begun finds it ended"
    assert (await desk.operations.begin(made)).over
    assert (await site.tracking.settle(made)).verdict is Verdict.OVER
