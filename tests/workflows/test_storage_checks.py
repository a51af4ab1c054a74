"""Newer versions of Ceph, looked for by a timetable, and upgraded to where that is wished."""

from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from temporalio.client import Client, ScheduleDescription
from temporalio.testing import WorkflowEnvironment

from activities.caring import Caring
from domain.ceph_releases import KNOWN
from domain.operation import Stage
from domain.upgrade_policy import Mode, UpgradePolicy
from store.engine import Database
from store.storages import Storages
from tests.store.desk import until
from tests.workflows.conftest import Opening
from tests.workflows.test_storage_changes import ON_SQLITE, ended
from tests.workflows.yard import Yard
from workflows.check_storage import CheckStorage
from workflows.serving import keep


async def check(place: Yard) -> str:
    return await place.client.execute_workflow(
        CheckStorage.run, "ceph", id=f"check-{uuid4()}", task_queue=f"{place.prefix}workflows"
    )


@ON_SQLITE
async def test_two_looks_record_one_upgrade_which_lives_on_its_own(opened: Opening) -> None:
    async with opened() as place:
        place.world.ceph.version = "18.2.4"
        await place.look()
        first = await check(place)
        assert first.endswith("upgrades Ceph to 18.2.7")
        assert "was to upgrade Ceph to 18.2.7, and is requested" in await check(place)
        [asked] = await place.operations.page(size=10)
        assert (asked.requester, asked.subject) == ("ceph-version-check", "ceph/ceph")
        await place.carry_out(asked)
        await ended(place, asked.id, Stage.SUCCEEDED)
        await place.look()
        assert await check(place) == "nothing is newer than Ceph 18.2.7"


@ON_SQLITE
async def test_a_cluster_that_is_not_fit_for_it_is_left_alone_and_why_is_told(
    opened: Opening,
) -> None:
    async with opened() as place:
        place.world.ceph.version, place.world.ceph.dead = "18.2.4", {0, 1}
        await place.look()
        assert "not active and clean" in await check(place)
        assert await place.operations.page(size=10) == []


@ON_SQLITE
async def test_to_be_told_changes_nothing(opened: Opening, database: Database) -> None:
    async with opened() as place:
        place.world.ceph.version = "18.2.4"
        await place.look()
        notify = Caring(Storages(database), "ceph", Mode.NOTIFY, KNOWN)
        with capture_logs() as logged:
            for _ in range(2):
                said = await notify.consider("ceph")
                assert said == "Ceph 18.2.4 can be upgraded to 19.2.3"
        told = [line["version"] for line in logged if line["event"] == "newer Ceph"]
        assert told == ["19.2.3"], "each once"
        nothing = Caring(Storages(database), "ceph", Mode.NOTIFY, ())
        assert await nothing.consider("ceph") == "nothing is newer than Ceph 18.2.4"
        assert await place.operations.page(size=10) == []


async def described(client: Client, name: str) -> ScheduleDescription:
    return await client.get_schedule_handle(name).describe()


@pytest.mark.parametrize(
    ("schedule", "fits"),
    [
        ("0 0 13 * 5", lambda when: when.day == 13 or when.weekday() == 4),
        ("CRON_TZ=Asia/Tokyo 0 9 1 * *", lambda when: (when.day, when.hour) == (1, 0)),
    ],
)
async def test_temporal_means_what_cron_does(
    temporal: WorkflowEnvironment, queues: str, schedule: str, fits: Callable[[datetime], bool]
) -> None:
    policy = UpgradePolicy(mode=Mode.DISABLED, schedule=schedule)
    await keep(temporal.client, queues, "ceph", policy)
    name = f"{queues}ceph-version-check-ceph"
    before = await described(temporal.client, name)
    assert before.schedule.state.paused
    times = before.info.next_action_times
    assert times
    assert all(fits(when) for when in times)
    await keep(temporal.client, queues, "ceph", policy.model_copy(update={"mode": Mode.NOTIFY}))

    async def is_on() -> bool:
        return not (await described(temporal.client, name)).schedule.state.paused

    await until(is_on)
    await temporal.client.get_schedule_handle(name).delete()
