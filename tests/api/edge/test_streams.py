"""Every stream of the contract, over the wire: what is told, in which order and to the byte, and
how it ends; in both modes, which run at the same time, each in a cluster of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import grpc
import pytest
from sqlalchemy import update

from api.errors import CODES
from domain import key_text
from domain.record import Noun
from domain.refusal import Refusal
from domain.tracking import Phase
from protos.gen.edge import common_pb2
from protos.gen.edge.flavor_pb2 import FlavorKey
from store.tracked import ROWS
from tests.api.edge.stubs import Edge, appinst, clusterinst
from tests.api.edge.works import Served, followed
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.edge import Fault, Site, appinst_key, cluster_key, does, obeys

CLUSTER, APP = Noun.CLUSTER_INST, Noun.APP_INST
CREATE, UPDATE, DELETE = Phase.CREATE_REQUESTED, Phase.UPDATE_REQUESTED, Phase.DELETE_REQUESTED
Asked = Callable[[str], Any]
"""A request, by the name of the cluster that it is about."""
Meanwhile = Callable[[Site, Edge, str], Awaitable[None]]
"""What happens once the call is made."""


def of_cluster(**more: Any) -> Asked:
    return lambda name: clusterinst(name, **more)


def of_shop(cluster: str = "", **more: Any) -> Asked:
    return lambda name: appinst("shop", f"{cluster}{name}", **more)


def of_agent(**more: Any) -> Asked:
    return lambda name: appinst("agent", name, **more)


class Story(NamedTuple):
    """A call, what stands before it, what its resource manager does, and how it comes out."""

    asked: Asked
    told: tuple[str, ...]
    before: tuple[tuple[str, Asked], ...] = ()
    fault: Fault = obeys
    refusal: Refusal | None = None
    text: str = ""
    meanwhile: Meanwhile | None = None
    lost: tuple[Noun, Phase] | None = None
    """What a failure has left behind that nobody waited for."""


def row_key(noun: Noun, name: str) -> str:
    if noun is CLUSTER:
        return key_text.clusterinst_text(cluster_key(name))
    return key_text.appinst_text(appinst_key("shop", name))


async def put(site: Site, noun: Noun, name: str, **values: Any) -> None:
    """Have an instance's row say something else."""
    row = ROWS[noun]
    async with site.database.session(writes=True) as session:
        await session.execute(update(row).where(row.key == row_key(noun, name)).values(values))


def time_up(noun: Noun, phase: Phase) -> Meanwhile:
    """Its time is up once it has come so far."""

    async def pass_by(site: Site, _edge: Edge, name: str) -> None:
        await stands(site, noun, name, phase)
        await site.time_up(noun, row_key(noun, name))

    return pass_by


async def stands(site: Site, noun: Noun, name: str, phase: Phase) -> None:
    short = name if noun is CLUSTER else f"shop@{name}"

    async def reached() -> bool:
        return (await site.phases()).get(short) is phase

    async with limit(20):
        await until(reached)


async def displaced(site: Site, edge: Edge, name: str) -> None:
    """Another call insists."""
    await stands(site, CLUSTER, name, Phase.CREATING)
    insists = common_pb2.IGNORE_CRM_AND_TRANSIENT_STATE
    await edge("DeleteClusterInst", clusterinst(name, crm_override=insists))


UNASKED: dict[str, Any] = {"crm_override": common_pb2.IGNORE_CRM}
FORGIVEN: dict[str, Any] = {"crm_override": common_pb2.IGNORE_CRM_ERRORS}
INSISTING: dict[str, Any] = {"crm_override": common_pb2.IGNORE_TRANSIENT_STATE}
DEFAULT: dict[str, Any] = {"key": {"place": "default", "owner": "developer"}}
NOBODYS: dict[str, Any] = {"key": {"developer": ""}}
GROWN: dict[str, Any] = {"num_nodes": 3, "fields": ["14"]}
AUTO = "autocluster"

MADE = ("Creating", "Ready", "Created successfully")
CHANGED = ("Updating", "Ready", "Updated successfully")
CLUSTER_GONE = ("Deleting", "NotPresent", "Deleted ClusterInst successfully")
APP_GONE = ("Deleting", "NotPresent", "Deleted AppInst successfully")
APP_UNMADE = ("Deleting AppInst due to failure", "Deleted AppInst successfully")
APP_KEPT = ("Recreating AppInst due to failure", "Created successfully")
BROKE = "Encountered failures: it broke, twice"
FAILED, OVERDUE = Refusal.INSTANCE_FAILED, Refusal.INSTANCE_OVERDUE
LATE = "Timed out while work still in progress state {}. Please use Show{} to check current status"
OUT = "Timed out; expected state {} but is {}"

HERE = (("CreateClusterInst", of_cluster(**UNASKED)),)
RUNS = (*HERE, ("CreateAppInst", of_shop(**UNASKED)))


def ignoring(verb: str, noun: str) -> tuple[str, str]:
    return f"{verb} {noun} ignoring CRM failure: {BROKE}", f"{verb}d {noun} successfully"


METHODS = (
    *("CreateClusterInst", "UpdateClusterInst", "DeleteClusterInst"),
    *("CreateAppInst", "DeleteAppInst"),
)
MANNERS = ("done", "failed", "silent", "stalled", "failed, and forgiven", "nobody asked")

STORIES: dict[tuple[str, str], Story] = {
    ("CreateClusterInst", "done"): Story(of_cluster(), MADE),
    ("CreateClusterInst", "failed"): Story(
        of_cluster(),
        ("Creating", "CreateError", "DELETING ClusterInst due to failures"),
        fault=does("fail", CREATE),
        refusal=FAILED,
        text=BROKE,
    ),
    ("CreateClusterInst", "silent"): Story(
        of_cluster(),
        ("DELETING ClusterInst due to failures",),
        fault=does("silent", CREATE),
        refusal=OVERDUE,
        text=OUT.format("Ready", "CreateRequested"),
        meanwhile=time_up(CLUSTER, CREATE),
    ),
    ("CreateClusterInst", "stalled"): Story(
        *(of_cluster(), ("Creating", LATE.format("Creating", "ClusterInst"))),
        fault=does("stall", CREATE),
        meanwhile=time_up(CLUSTER, Phase.CREATING),
    ),
    ("CreateClusterInst", "failed, and forgiven"): Story(
        of_cluster(**FORGIVEN),
        ("Creating", "CreateError", *ignoring("Create", "ClusterInst")),
        fault=does("fail", CREATE),
    ),
    ("CreateClusterInst", "nobody asked"): Story(of_cluster(**UNASKED), ("Created successfully",)),
    ("CreateClusterInst", "over what failed"): Story(
        of_cluster(),
        ("Previous create of this ClusterInst failed, too, late; delete it first",),
        *(HERE, obeys, Refusal.KEY_TAKEN, "Key already exists"),
        lost=(CLUSTER, Phase.CREATE_ERROR),
    ),
    ("CreateClusterInst", "over what failed, whatever is under way"): Story(
        of_cluster(**INSISTING),
        ("Previous create of this ClusterInst failed, too, late; delete it first",),
        *(HERE, obeys, Refusal.KEY_TAKEN, "Key already exists"),
        lost=(CLUSTER, Phase.CREATE_ERROR),
    ),
    ("CreateClusterInst", "displaced"): Story(
        *(of_cluster(), ("Creating",), (), does("stall", CREATE), Refusal.INSTANCE_SUPERSEDED),
        "another call has taken over, without regard to this one",
        displaced,
    ),
    ("UpdateClusterInst", "done"): Story(of_cluster(**GROWN), CHANGED, HERE),
    ("UpdateClusterInst", "failed"): Story(
        *(of_cluster(**GROWN), ("Updating", "UpdateError"), HERE),
        *(does("fail", UPDATE), FAILED, BROKE),
    ),
    ("UpdateClusterInst", "silent"): Story(
        *(of_cluster(**GROWN), (), HERE, does("silent", UPDATE)),
        *(OVERDUE, OUT.format("Ready", "UpdateRequested"), time_up(CLUSTER, UPDATE)),
    ),
    ("UpdateClusterInst", "stalled"): Story(
        *(of_cluster(**GROWN), ("Updating", LATE.format("Updating", "ClusterInst")), HERE),
        fault=does("stall", UPDATE),
        meanwhile=time_up(CLUSTER, Phase.UPDATING),
    ),
    ("UpdateClusterInst", "failed, and forgiven"): Story(
        *(of_cluster(**GROWN, **FORGIVEN), ("Updating", "UpdateError"), HERE),
        *(does("fail", UPDATE), FAILED, BROKE),
    ),
    ("UpdateClusterInst", "nobody asked"): Story(
        of_cluster(**GROWN, **UNASKED), ("Updated successfully",), HERE
    ),
    ("DeleteClusterInst", "done"): Story(of_cluster(), CLUSTER_GONE, HERE),
    ("DeleteClusterInst", "failed"): Story(
        of_cluster(),
        ("Deleting", "DeleteError", "Recreating ClusterInst due to failure"),
        *(HERE, does("fail", DELETE), FAILED, BROKE),
    ),
    ("DeleteClusterInst", "silent"): Story(
        *(of_cluster(), ("Recreating ClusterInst due to failure",), HERE, does("silent", DELETE)),
        *(OVERDUE, OUT.format("NotPresent", "DeleteRequested"), time_up(CLUSTER, DELETE)),
    ),
    ("DeleteClusterInst", "stalled"): Story(
        *(of_cluster(), ("Deleting", LATE.format("Deleting", "ClusterInst")), HERE),
        fault=does("stall", DELETE),
        meanwhile=time_up(CLUSTER, Phase.DELETING),
    ),
    ("DeleteClusterInst", "failed, and forgiven"): Story(
        of_cluster(**FORGIVEN),
        ("Deleting", "DeleteError", *ignoring("Delete", "ClusterInst")),
        *(HERE, does("fail", DELETE)),
    ),
    ("DeleteClusterInst", "nobody asked"): Story(
        of_cluster(**UNASKED), ("Deleted ClusterInst successfully",), HERE
    ),
    ("DeleteClusterInst", "with what gives way"): Story(
        *(of_cluster(), ("Autodeleting appinst agent", *APP_GONE, *CLUSTER_GONE)),
        (*HERE, ("CreateAppInst", of_agent(**UNASKED))),
    ),
    ("DeleteClusterInst", "over what failed"): Story(
        of_cluster(),
        ("Previous delete of this ClusterInst failed, too, late; create it again first",),
        *(HERE, obeys, Refusal.CLUSTERINST_BUSY, "ClusterInst busy, cannot delete"),
        lost=(CLUSTER, Phase.DELETE_ERROR),
    ),
    ("CreateAppInst", "done"): Story(of_shop(), MADE, HERE),
    ("CreateAppInst", "failed"): Story(
        *(of_shop(), ("Creating", "CreateError", *APP_UNMADE), HERE),
        *(does("fail", CREATE, APP), FAILED, BROKE),
    ),
    ("CreateAppInst", "silent"): Story(
        *(of_shop(), APP_UNMADE, HERE, does("silent", CREATE)),
        *(OVERDUE, OUT.format("Ready", "CreateRequested"), time_up(APP, CREATE)),
    ),
    ("CreateAppInst", "stalled"): Story(
        *(of_shop(), ("Creating", LATE.format("Creating", "AppInst")), HERE),
        fault=does("stall", CREATE),
        meanwhile=time_up(APP, Phase.CREATING),
    ),
    ("CreateAppInst", "failed, and forgiven"): Story(
        of_shop(**FORGIVEN),
        ("Creating", "CreateError", *ignoring("Create", "AppInst")),
        *(HERE, does("fail", CREATE)),
    ),
    ("CreateAppInst", "nobody asked"): Story(of_shop(**UNASKED), ("Created successfully",), HERE),
    ("CreateAppInst", "on the default cloudlet"): Story(
        of_shop(**DEFAULT, uri="shop.test"), ("Created successfully",)
    ),
    ("CreateAppInst", "with its cluster"): Story(of_shop(AUTO), (*MADE, *MADE)),
    ("CreateAppInst", "failed, with its cluster"): Story(
        of_shop(AUTO),
        (
            *(*MADE, "Creating", "CreateError", *APP_UNMADE),
            "Deleting auto-ClusterInst due to failure",
        ),
        *((), does("fail", CREATE, APP), FAILED, BROKE),
    ),
    ("CreateAppInst", "whose developer is filled in"): Story(
        *(of_shop(**NOBODYS), ("Setting ClusterInst developer to match App developer", *MADE)),
        HERE,
    ),
    ("CreateAppInst", "over what failed"): Story(
        of_shop(),
        ("Previous create of this AppInst failed, too, late; delete it first",),
        *(RUNS, obeys, Refusal.KEY_TAKEN, "Key already exists"),
        lost=(APP, Phase.CREATE_ERROR),
    ),
    ("CreateAppInst", "over what failed, whatever is under way"): Story(
        of_shop(**INSISTING),
        ("Previous create of this AppInst failed, too, late; delete it first",),
        *(RUNS, obeys, Refusal.KEY_TAKEN, "Key already exists"),
        lost=(APP, Phase.CREATE_ERROR),
    ),
    ("CreateAppInst", "over what failed, once its developer is filled in"): Story(
        of_shop(**NOBODYS),
        (
            "Setting ClusterInst developer to match App developer",
            "Previous create of this AppInst failed, too, late; delete it first",
        ),
        *(RUNS, obeys, Refusal.KEY_TAKEN, "Key already exists"),
        lost=(APP, Phase.CREATE_ERROR),
    ),
    ("CreateAppInst", "refused once its developer is filled in"): Story(
        of_shop(**NOBODYS, flavor=FlavorKey(name="none")),
        ("Setting ClusterInst developer to match App developer",),
        *(HERE, obeys, Refusal.APPINST_FLAVOR, "Flavor none not found"),
    ),
    ("DeleteAppInst", "done"): Story(of_shop(), APP_GONE, RUNS),
    ("DeleteAppInst", "failed"): Story(
        *(of_shop(), ("Deleting", "DeleteError", *APP_KEPT), RUNS),
        *(does("fail", DELETE), FAILED, BROKE),
    ),
    ("DeleteAppInst", "silent"): Story(
        *(of_shop(), APP_KEPT, RUNS, does("silent", DELETE)),
        *(OVERDUE, OUT.format("NotPresent", "DeleteRequested"), time_up(APP, DELETE)),
    ),
    ("DeleteAppInst", "stalled"): Story(
        *(of_shop(), ("Deleting", LATE.format("Deleting", "AppInst")), RUNS),
        fault=does("stall", DELETE),
        meanwhile=time_up(APP, Phase.DELETING),
    ),
    ("DeleteAppInst", "failed, and forgiven"): Story(
        of_shop(**FORGIVEN),
        ("Deleting", "DeleteError", *ignoring("Delete", "AppInst")),
        *(RUNS, does("fail", DELETE)),
    ),
    ("DeleteAppInst", "nobody asked"): Story(
        of_shop(**UNASKED), ("Deleted AppInst successfully",), RUNS
    ),
    ("DeleteAppInst", "on the default cloudlet"): Story(
        *(of_shop(**DEFAULT), ("Deleted AppInst successfully",)),
        (("CreateAppInst", of_shop(**DEFAULT, uri="shop.test")),),
    ),
    ("DeleteAppInst", "with its cluster"): Story(
        *(of_shop(AUTO), (*APP_GONE, "Deleting auto-cluster inst", *CLUSTER_GONE)),
        (("CreateAppInst", of_shop(AUTO, **UNASKED)),),
    ),
    ("DeleteAppInst", "with its cluster, and nobody asked"): Story(
        of_shop(AUTO, **UNASKED),
        (
            *("Deleted AppInst successfully", "Deleting auto-cluster inst"),
            "Deleted ClusterInst successfully",
        ),
        (("CreateAppInst", of_shop(AUTO, **UNASKED)),),
    ),
    ("DeleteAppInst", "of nobody knows whose cluster"): Story(
        of_shop(**NOBODYS),
        ("AppInst not found; name the developer of its ClusterInst, if that has one",),
        *(RUNS, obeys, Refusal.KEY_UNKNOWN, "Key not found"),
    ),
}


@pytest.fixture
async def site(served: Served) -> AsyncIterator[Site]:
    """The site with nothing on it, and nothing left on it afterwards."""
    served.site.fault = obeys
    yield served.site
    served.site.fault = obeys
    await served.site.clear()


async def played(story: Story, method: str, edge: Edge, site: Site, name: str) -> Any:
    """A story in a cluster of that name: what is told in it, and how it ends."""
    following = asyncio.ensure_future(followed(edge, method, story.asked(name)))
    if story.meanwhile is not None:
        await story.meanwhile(site, edge, name)
    return await following


async def set_out(story: Story, edge: Edge, site: Site, name: str) -> None:
    """What a story begins with."""
    for method, asked in story.before:
        await edge(method, asked(name))
    if story.lost:
        noun, phase = story.lost
        await put(site, noun, name, phase=phase, errors=json.dumps(["too", "late"]))


@pytest.mark.parametrize(("method", "how"), STORIES)
async def test_is_told_to_the_byte_in_both_modes(
    method: str, how: str, served: Served, site: Site
) -> None:
    story = STORIES[method, how]
    modes = ((served.proper, "blue"), (served.legacy, "red"))
    for edge, name in modes:
        await set_out(story, edge, site, name)
    site.fault = story.fault
    ends = await asyncio.gather(*(played(story, method, edge, site, name) for edge, name in modes))
    for (told, refused), legacy in zip(ends, (False, True), strict=True):
        assert told == story.told
        if story.refusal is None:
            assert refused is None
            continue
        assert (refused.message, refused.reason) == (story.text, story.refusal.name)
        code = grpc.StatusCode.UNKNOWN if legacy else CODES[story.refusal.kind]
        assert refused.code is code


def test_every_call_is_told_of_however_it_goes() -> None:
    assert {(method, how) for method in METHODS for how in MANNERS} <= STORIES.keys()
