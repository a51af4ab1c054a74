"""Instances from a request to its end, as callers follow them: what they are told, in which order
and to the byte, how it ends, and what stands then. All share one site, each with a cluster of its
own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import update
from temporalio import activity
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from domain.awaiting import Aim
from domain.errors import DomainError
from domain.key_text import cloudlet_text
from domain.operation import Operation, Stage
from domain.override import Override
from domain.patience import Patience
from domain.record import Noun
from domain.tracking import Phase
from domain.usage import FIRST, LAST, Usage
from store import schema
from store.cloudlet_refs import written_ports
from store.edge_rows import CloudletRefsRow
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from store.tracked import Requested
from tests.workflows.edge import WEST, Fault, Site, does, obeys, site
from tests.workflows.yard import Trouble, yard
from workflows.policies import EVENTS_PER_RUN

CLUSTER, APP = Noun.CLUSTER_INST, Noun.APP_INST
CREATE, UPDATE, DELETE = Phase.CREATE_REQUESTED, Phase.UPDATE_REQUESTED, Phase.DELETE_REQUESTED
BROKE = "Encountered failures: it broke, twice"
MADE = ("Creating", "Ready", "Created successfully")
GONE = {
    CLUSTER: ("Deleting", "NotPresent", "Deleted ClusterInst successfully"),
    APP: ("Deleting", "NotPresent", "Deleted AppInst successfully"),
}
ADVICE = (
    "Timed out while work still in progress state {}. Please use Show{} to check current status"
)


HASTY = Patience(**dict.fromkeys(Patience.model_fields, timedelta(seconds=0.3)))


@pytest.fixture(scope="module")
async def place(
    temporal: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('edge')}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    vault = Secrets(database, Seal(AESGCM.generate_key(bit_length=256)))
    prefix = f"{uuid4().hex[:8]}-"
    async with (
        yard(temporal.client, database, vault, prefix),
        site(temporal.client, database, prefix) as place,
    ):
        yield place
    await database.close()


@pytest.fixture
async def name(place: Site) -> AsyncIterator[str]:
    """A cluster's name for one test, after which nothing is left of it."""
    place.fault = obeys
    before = await place.usage()
    name = f"c{uuid4().hex[:8]}"
    yield name
    place.fault = obeys
    await place.clear()
    assert await place.phases() == {}
    assert await place.usage() == before == Usage()


class Case(NamedTuple):
    """One change of one instance, and what comes of it."""

    noun: Noun
    aim: Aim
    told: tuple[str, ...]
    left: Phase | None
    """What the instance is then. None: it is gone."""
    fault: Fault = obeys
    override: Override = Override.NONE
    error: str = ""


def forgiven(noun: Noun, aim: Aim, why: str = BROKE) -> tuple[str, str]:
    verb = aim.capitalize()
    return f"{verb} {noun} ignoring CRM failure: {why}", f"{verb}d {noun} successfully"


FAILS, IGNORING = Override.CRM_ERRORS, Override.CRM

CASES: dict[str, Case] = {
    "cluster created": Case(CLUSTER, Aim.CREATE, MADE, Phase.READY),
    "app created": Case(APP, Aim.CREATE, MADE, Phase.READY),
    "cluster updated": Case(
        CLUSTER, Aim.UPDATE, ("Updating", "Ready", "Updated successfully"), Phase.READY
    ),
    "cluster deleted": Case(CLUSTER, Aim.DELETE, GONE[CLUSTER], None),
    "app deleted": Case(APP, Aim.DELETE, GONE[APP], None),
    "cluster not created": Case(
        *(CLUSTER, Aim.CREATE),
        ("Creating", "CreateError", "DELETING ClusterInst due to failures"),
        *(None, does("fail", CREATE)),
        error=BROKE,
    ),
    "app not created": Case(
        *(APP, Aim.CREATE),
        (
            *("Creating", "CreateError"),
            *("Deleting AppInst due to failure", "Deleted AppInst successfully"),
        ),
        *(None, does("fail", CREATE, APP)),
        error=BROKE,
    ),
    "cluster not updated": Case(
        *(CLUSTER, Aim.UPDATE, ("Updating", "UpdateError"), Phase.READY, does("fail", UPDATE)),
        error=BROKE,
    ),
    "cluster not deleted": Case(
        *(CLUSTER, Aim.DELETE),
        ("Deleting", "DeleteError", "Recreating ClusterInst due to failure"),
        *(Phase.READY, does("fail", DELETE)),
        error=BROKE,
    ),
    "app not deleted": Case(
        *(APP, Aim.DELETE),
        (
            *("Deleting", "DeleteError"),
            *("Recreating AppInst due to failure", "Created successfully"),
        ),
        *(Phase.READY, does("fail", DELETE)),
        error=BROKE,
    ),
    "cluster created all the same": Case(
        *(CLUSTER, Aim.CREATE, ("Creating", "CreateError", *forgiven(CLUSTER, Aim.CREATE))),
        *(Phase.READY, does("fail", CREATE), FAILS),
    ),
    "app created all the same": Case(
        *(APP, Aim.CREATE, ("Creating", "CreateError", *forgiven(APP, Aim.CREATE))),
        *(Phase.READY, does("fail", CREATE, APP), FAILS),
    ),
    "cluster deleted all the same": Case(
        *(CLUSTER, Aim.DELETE, ("Deleting", "DeleteError", *forgiven(CLUSTER, Aim.DELETE))),
        *(None, does("fail", DELETE), FAILS),
    ),
    "app deleted all the same": Case(
        *(APP, Aim.DELETE, ("Deleting", "DeleteError", *forgiven(APP, Aim.DELETE))),
        *(None, does("fail", DELETE), FAILS),
    ),
    "a change is not forgiven": Case(
        *(CLUSTER, Aim.UPDATE, ("Updating", "UpdateError"), Phase.READY, does("fail", UPDATE)),
        FAILS,
        BROKE,
    ),
    "cluster created unasked": Case(
        CLUSTER, Aim.CREATE, ("Created successfully",), Phase.READY, override=IGNORING
    ),
    "cluster updated unasked": Case(
        CLUSTER, Aim.UPDATE, ("Updated successfully",), Phase.READY, override=IGNORING
    ),
    "cluster deleted unasked": Case(
        CLUSTER, Aim.DELETE, ("Deleted ClusterInst successfully",), None, override=IGNORING
    ),
    "app created unasked": Case(
        APP, Aim.CREATE, ("Created successfully",), Phase.READY, override=IGNORING
    ),
    "app deleted unasked": Case(
        APP, Aim.DELETE, ("Deleted AppInst successfully",), None, override=IGNORING
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_callers_are_told_to_the_byte(case: str, place: Site, name: str) -> None:
    noun, aim, told, left, fault, override, error = CASES[case]
    await prepared(place, name, noun, aim)
    place.fault = fault
    ended = await place.carry_out(await asked(place, name, noun, aim, override))
    assert tuple(await place.told(ended)) == told
    check_end(ended, error)
    assert (await place.phases()).get(called(name, noun)) == left
    if left is Phase.READY and aim is Aim.DELETE:
        assert await place.errors(name, noun) == (), "it is kept, and nothing is wrong with it"
    if noun is CLUSTER and left is not None:
        changed = aim is Aim.UPDATE and not error
        assert await place.nodes(name) == (3 if changed else 1)


SILENCE: dict[tuple[Noun, Aim, Phase], tuple[tuple[str, ...], Phase | None, str]] = {
    (CLUSTER, Aim.CREATE, CREATE): (
        *(("DELETING ClusterInst due to failures",), None),
        "Timed out; expected state Ready but is CreateRequested",
    ),
    (CLUSTER, Aim.CREATE, Phase.CREATING): (
        ("Creating", ADVICE.format("Creating", "ClusterInst")),
        *(Phase.CREATING, ""),
    ),
    (CLUSTER, Aim.UPDATE, UPDATE): (
        *((), Phase.READY),
        "Timed out; expected state Ready but is UpdateRequested",
    ),
    (CLUSTER, Aim.UPDATE, Phase.UPDATING): (
        ("Updating", ADVICE.format("Updating", "ClusterInst")),
        *(Phase.UPDATING, ""),
    ),
    (CLUSTER, Aim.DELETE, DELETE): (
        *(("Recreating ClusterInst due to failure",), Phase.READY),
        "Timed out; expected state NotPresent but is DeleteRequested",
    ),
    (CLUSTER, Aim.DELETE, Phase.DELETING): (
        ("Deleting", ADVICE.format("Deleting", "ClusterInst")),
        *(Phase.DELETING, ""),
    ),
    (APP, Aim.CREATE, CREATE): (
        *(("Deleting AppInst due to failure", "Deleted AppInst successfully"), None),
        "Timed out; expected state Ready but is CreateRequested",
    ),
    (APP, Aim.CREATE, Phase.CREATING): (
        ("Creating", ADVICE.format("Creating", "AppInst")),
        *(Phase.CREATING, ""),
    ),
    (APP, Aim.DELETE, DELETE): (
        *(("Recreating AppInst due to failure", "Created successfully"), Phase.READY),
        "Timed out; expected state NotPresent but is DeleteRequested",
    ),
    (APP, Aim.DELETE, Phase.DELETING): (
        ("Deleting", ADVICE.format("Deleting", "AppInst")),
        *(Phase.DELETING, ""),
    ),
}
"""What comes of a resource manager that has said no more than that by the time it had."""


@pytest.mark.parametrize("forgives", [False, True], ids=["", "forgiven"])
@pytest.mark.parametrize(("noun", "aim", "phase"), SILENCE)
async def test_time_runs_out(
    noun: Noun, aim: Aim, phase: Phase, forgives: bool, place: Site, name: str
) -> None:
    told, left, error = SILENCE[noun, aim, phase]
    await prepared(place, name, noun, aim)
    place.fault = lambda _noun, _asked: "silent"
    override = FAILS if forgives else Override.NONE
    with place.patience(HASTY):
        requested = await asked(place, name, noun, aim, override)
    if phase not in (CREATE, UPDATE, DELETE):
        await place.say_of(name, noun, phase)
    ended = await place.carry_out(requested)
    if forgives and aim is not Aim.UPDATE:
        state = "Ready" if aim is Aim.CREATE else "NotPresent"
        word = "".join(part.capitalize() for part in phase.split("_"))
        why = f"Timed out; expected state {state} but is {word}"
        told, error = (*told[: phase.endswith("ING")], *forgiven(noun, aim, why)), ""
        left = Phase.READY if aim is Aim.CREATE else None
    assert tuple(await place.told(ended)) == told
    check_end(ended, error)
    assert (await place.phases()).get(called(name, noun)) == left


async def test_a_cluster_is_made_for_an_app_and_goes_with_it(place: Site, name: str) -> None:
    auto = f"autocluster{name}"
    made = await place.carry_out(await place.create_app(cluster=auto))
    assert await place.told(made) == [*MADE, *MADE]
    gone = await place.carry_out(await place.delete_app(cluster=auto))
    assert await place.told(gone) == [
        *(*GONE[APP], "Deleting auto-cluster inst"),
        *GONE[CLUSTER],
    ]


async def test_one_cluster_is_made_for_several_apps(place: Site, name: str) -> None:
    auto = f"autocluster{name}"
    await place.carry_out(await place.create_app(cluster=auto))
    second = await place.carry_out(await place.create_app("other", cluster=auto))
    assert await place.told(second) == [*MADE]
    assert await place.told(await place.carry_out(await place.delete_app(cluster=auto))) == [
        *GONE[APP]
    ]
    assert Phase.READY in (await place.phases()).values()


async def test_with_its_app_the_cluster_made_for_it_is_not_created(place: Site, name: str) -> None:
    place.fault = does("fail", CREATE, APP)
    made = await place.carry_out(await place.create_app(cluster=f"autocluster{name}"))
    assert await place.told(made) == [
        *(*MADE, "Creating", "CreateError"),
        *("Deleting AppInst due to failure", "Deleted AppInst successfully"),
        "Deleting auto-ClusterInst due to failure",
    ]
    check_end(made, BROKE)


async def test_without_its_cluster_an_app_is_not_created(place: Site, name: str) -> None:
    place.fault = does("fail", CREATE, CLUSTER)
    made = await place.carry_out(await place.create_app(cluster=f"autocluster{name}"))
    assert await place.told(made) == [
        *("Creating", "CreateError"),
        "DELETING ClusterInst due to failures",
    ]
    check_end(made, BROKE)


async def test_what_gives_way_goes_before_its_cluster(place: Site, name: str) -> None:
    await place.carry_out(await place.create_cluster(name))
    await place.carry_out(await place.create_app("agent", name))
    gone = await place.carry_out(await place.delete_cluster(name))
    assert await place.told(gone) == ["Autodeleting appinst agent", *GONE[APP], *GONE[CLUSTER]]


async def test_a_cluster_is_inherited_from_its_app(place: Site, name: str) -> None:
    await place.carry_out(await place.create_cluster(name))
    made = await place.carry_out(await place.create_app(cluster=name, developer=""))
    inherited = "Setting ClusterInst developer to match App developer"
    assert await place.told(made) == [inherited, *MADE]
    with pytest.raises(DomainError, match="Key not found") as told:
        await place.delete_app(cluster=name, developer="")
    assert len(told.value.preface) == 1


async def test_what_is_left_of_a_failure_is_told(place: Site, name: str) -> None:
    """Of a create and a delete that failed after their callers had gone on."""
    place.fault = lambda _noun, _asked: "silent"
    for noun, aim in ((CLUSTER, Aim.CREATE), (CLUSTER, Aim.DELETE)):
        if aim is Aim.DELETE:
            await place.clear()
            place.fault = obeys
            await prepared(place, name, noun, aim)
            place.fault = lambda _noun, _asked: "silent"
        with place.patience(HASTY):
            requested = await asked(place, name, noun, aim)
        working, failing = {
            Aim.CREATE: (Phase.CREATING, Phase.CREATE_ERROR),
            Aim.DELETE: (Phase.DELETING, Phase.DELETE_ERROR),
        }[aim]
        await place.say_of(name, noun, working)
        await place.carry_out(requested)
        await place.say_of(name, noun, failing, "too late")
        assert (await place.phases())[name] is failing
        with pytest.raises(DomainError) as told:
            await asked(place, name, noun, aim)
        assert "too late" in "".join(told.value.preface)
    place.fault = obeys
    again = await place.carry_out(await place.create_cluster(name))
    assert again.stage is Stage.SUCCEEDED, "what could not be deleted is built again"


async def test_nothing_is_told_to_be_there_again_that_is_not(place: Site, name: str) -> None:
    """An instance that could not be deleted, and whose ports are all others' by then."""
    await prepared(place, name, APP, Aim.DELETE)
    place.fault = does("silent", DELETE)
    requested = await place.delete_app(cluster=name)
    await taken(place, 80, *range(FIRST, LAST + 1))
    for phase in (Phase.DELETING, Phase.DELETE_ERROR):
        await place.say_of(name, APP, phase, "it broke", "twice")
    ended = await place.carry_out(requested)
    assert await place.told(ended) == [
        *("Deleting", "DeleteError"),
        "Recreating AppInst due to failure",
    ]
    check_end(ended, BROKE)
    assert (await place.phases())[called(name, APP)] is Phase.DELETE_ERROR
    await taken(place)


async def taken(place: Site, *ports: int) -> None:
    """Have just these public ports taken."""
    row = update(CloudletRefsRow).where(CloudletRefsRow.cloudlet == cloudlet_text(WEST))
    async with place.database.session(writes=True) as session:
        await session.execute(row.values(ports=written_ports(dict.fromkeys(ports, 3))))


async def test_work_under_way_gives_way_to_whoever_insists(place: Site, name: str) -> None:
    place.fault = lambda _noun, _asked: "silent"
    first = await place.create_cluster(name)
    running = asyncio.create_task(place.carry_out(first))
    with pytest.raises(DomainError, match="Key already exists"):
        await place.create_cluster(name)
    second = await place.create_cluster(name, Override.TRANSIENT_STATE)
    assert second.superseded == first.operation.id
    await place.cancel(first)
    ended = await running
    assert ended.stage is Stage.SUPERSEDED
    check_end(ended, "another call has taken over, without regard to this one")
    place.fault = obeys
    assert (await place.carry_out(second)).stage is Stage.SUCCEEDED
    third = await place.delete_cluster(name, Override.CRM_AND_TRANSIENT_STATE)
    assert third.operation.stage is Stage.SUCCEEDED


@pytest.mark.parametrize("cluster", ["c", "autocluster"])
async def test_a_create_that_is_called_off_leaves_nothing(
    cluster: str, place: Site, name: str
) -> None:
    if cluster == "c":
        await place.carry_out(await place.create_cluster(f"c{name}"))
    place.fault = lambda _noun, _asked: "silent"
    requested = await place.create_app(cluster=f"{cluster}{name}")
    running = asyncio.create_task(place.carry_out(requested))
    await place.begun(requested)
    await place.steering.cancel(requested.operation.id, "ann")
    await place.cancel(requested)
    ended = await running
    assert ended.stage is Stage.CANCELLED
    left = {f"c{name}": Phase.READY} if cluster == "c" else {}
    assert await place.phases() == left


async def test_a_cloudlet_goes_with_what_was_made_for_others(place: Site, name: str) -> None:
    await place.carry_out(await place.create_app("agent", f"autocluster{name}"))
    requested = await place.delete_cloudlet()
    assert requested is not None
    assert (await place.carry_out(requested)).stage is Stage.SUCCEEDED
    assert await place.delete_cloudlet_refused() == "Key not found"
    await place.describe_cloudlet()


@pytest.mark.parametrize("waits", ["for its manager", "for what is in the way"])
async def test_however_long_it_waits_each_run_is_short(waits: str, place: Site, name: str) -> None:
    """What makes a history long is how often something happens, so it is nudged very often."""
    place.fault = does("silent", CREATE)
    if waits == "for its manager":
        requested = await place.create_cluster(name)
        others = []
    else:
        await place.create_cluster(name, Override.CRM)
        others = [asyncio.create_task(place.carry_out(await place.create_app("agent", name)))]
        requested = await place.delete_cluster(name)
    ended = asyncio.create_task(place.carry_out(requested))
    await place.begun(requested)
    handle = place.temporal.get_workflow_handle(f"op-{requested.operation.id}")
    run = await handle.describe()
    while (now := await handle.describe()).run_id == run.run_id:
        often = 50 if now.history_length < EVENTS_PER_RUN else 1
        await asyncio.gather(*(place.nudge(requested.operation.id) for _ in range(often)))
        await asyncio.sleep(0.1)  # it turns no page while it is being nudged
    run = await place.temporal.get_workflow_handle(handle.id, run_id=run.run_id).describe()
    assert EVENTS_PER_RUN < run.history_length < 2 * EVENTS_PER_RUN
    place.fault = obeys
    for operation in await asyncio.gather(ended, *others):
        assert operation.stage is Stage.SUCCEEDED


async def prepared(place: Site, name: str, noun: Noun, aim: Aim) -> None:
    """What has to be there before something is done to an instance."""
    if noun is APP or aim is not Aim.CREATE:
        await place.carry_out(await place.create_cluster(name))
    if noun is APP and aim is Aim.DELETE:
        await place.carry_out(await place.create_app(cluster=name))


async def asked(
    place: Site, name: str, noun: Noun, aim: Aim, override: Override = Override.NONE
) -> Requested:
    return await {
        (CLUSTER, Aim.CREATE): lambda: place.create_cluster(name, override),
        (CLUSTER, Aim.UPDATE): lambda: place.resize_cluster(name, 3, override),
        (CLUSTER, Aim.DELETE): lambda: place.delete_cluster(name, override),
        (APP, Aim.CREATE): lambda: place.create_app(cluster=name, override=override),
        (APP, Aim.DELETE): lambda: place.delete_app(cluster=name, override=override),
    }[noun, aim]()


def called(name: str, noun: Noun) -> str:
    return name if noun is CLUSTER else f"shop@{name}"


def check_end(ended: Operation, error: str) -> None:
    assert (ended.failure.message if ended.failure else "") == error
    assert (ended.stage is Stage.SUCCEEDED) is (not error)


@dataclass
class Stuttering(Trouble):
    """Books of instances that are kept twice each, as they are when a worker dies between the
    writing and the report."""

    kept: int = 0

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Stutters(next, self)


class _Stutters(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, trouble: Stuttering) -> None:
        super().__init__(next)
        self._trouble = trouble

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        answer = await self.next.execute_activity(input)
        if activity.info().activity_type.startswith(("tracking.", "progress.begin")):
            self._trouble.kept += 1
            answer = await self.next.execute_activity(input)
        return answer


async def test_what_is_done_twice_is_done_once(
    temporal: WorkflowEnvironment, tmp_path: Path
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    vault = Secrets(database, Seal(AESGCM.generate_key(bit_length=256)))
    prefix = f"{uuid4().hex[:8]}-"
    trouble = Stuttering()
    async with (
        yard(temporal.client, database, vault, prefix, trouble=trouble),
        site(temporal.client, database, prefix) as place,
    ):
        made = await place.carry_out(await place.create_app(cluster="autocluster1"))
        check_end(made, "")
        changed = await place.carry_out(await place.resize_cluster("autocluster1"))
        assert await place.told(changed) == ["Updating", "Ready", "Updated successfully"]
        place.fault = lambda _noun, _asked: "fail"
        failed = await place.carry_out(await place.delete_app(cluster="autocluster1"))
        check_end(failed, BROKE)
        place.fault = obeys
        check_end(await place.carry_out(await place.create_app("agent", "autocluster1")), "")
        gone = await place.carry_out(await place.delete_app(cluster="autocluster1"))
        assert set(await place.told(gone)) == {
            *(*GONE[APP], *GONE[CLUSTER]),
            *("Deleting auto-cluster inst", "Autodeleting appinst agent"),
        }
        assert await place.phases() == {}
        assert await place.usage() == Usage()
    assert trouble.kept > 15
    await database.close()
