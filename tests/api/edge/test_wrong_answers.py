"""Resource managers that answer wrongly, over their real wire: whatever one says or does not say,
and whenever, its caller is told how it ended, and what is left can be left by a call."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import pytest
from sqlalchemy import update

from api.edge import keys
from domain.patience import Patience
from domain.record import Noun
from domain.tracking import Phase
from domain.usage import Usage
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import IGNORE_TRANSIENT_STATE, TrackedState
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, Notice
from store.rows import OperationRow, now
from tests.api.caller import Refusal
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.api.edge.test_streams import GROWN, UNASKED
from tests.api.edge.works import Served, followed
from tests.workflows.edge import ENDS, Site, nonsense

CLUSTER, APP = Noun.CLUSTER_INST, Noun.APP_INST
CREATED, UPDATED, DELETED = ENDS
GONE, READY = Phase.NOT_PRESENT, Phase.READY
BROKE = "it broke"
NUMBERS = count()
MESSAGES: dict[Noun, tuple[type[Any], type[Any]]] = {
    CLUSTER: (ClusterInst, ClusterInstInfo),
    APP: (AppInst, AppInstInfo),
}
ACTS = [*((CLUSTER, asked) for asked in ENDS), (APP, CREATED), (APP, DELETED)]
UNDONE = {CREATED: GONE, UPDATED: READY, DELETED: READY}
"""What is made of it again where it did not work."""


Calling: TypeAlias = "asyncio.Task[tuple[Any, Refusal | None]]"


class Scene(NamedTuple):
    """One instance, its caller, and its resource manager."""

    noun: Noun
    name: str
    edge: Edge
    crm: Peer
    site: Site
    app: str = "shop"

    def request(self, **more: Any) -> Any:
        if self.noun is CLUSTER:
            return stubs.clusterinst(self.name, **more)
        return stubs.appinst(self.app, self.name, **more)

    def calling(self, asked: Phase, **more: Any) -> Calling:
        """Ask for something."""
        verb = asked.partition("_")[0].capitalize()
        request = self.request(**(GROWN if asked is UPDATED else {}), **more)
        return asyncio.create_task(followed(self.edge, f"{verb}{self.noun}", request))

    async def call(self, asked: Phase, **more: Any) -> Calling:
        """Ask for something, and wait until the resource manager has been asked for it."""
        calling = self.calling(asked, **more)
        await self.told(asked)
        return calling

    async def told(self, phase: Phase) -> None:
        """Wait until the resource manager has been told that the instance stands so."""
        kind, short = (
            str(self.noun),
            self.name if self.noun is CLUSTER else f"{self.app}@{self.name}",
        )
        await self.crm.until(lambda: _stands(self.crm.there[kind].get(short)) is phase)

    def say(self, phase: Phase) -> None:
        """Say something of the instance; of one that is gone there is no more to say."""
        _, info = MESSAGES[self.noun]
        said = info(key=self.request().key)
        if phase is not GONE:
            said.state = TrackedState.Value(phase)
            said.errors.extend([BROKE] * phase.endswith("ERROR"))
        self.crm.tell(said, DELETE if phase is GONE else UPDATE)

    async def time_up(self, at: Phase) -> None:
        """Have the resource manager's time run out once it has come so far."""
        await self.told(at)
        await self.site.time_up(self.noun, keys.of(self.request()))

    async def heard(self) -> None:
        """Wait until all that was said has been heard."""
        ends = self._ends()
        self.crm.say(Notice(action=SENDALL_END))
        await self.crm.until(lambda: self._ends() > ends)

    def _ends(self) -> int:
        return sum(notice.action == SENDALL_END for notice in self.crm.notices)

    async def left(self) -> Phase:
        found = await self.edge(f"Show{self.noun}", type(self.request())(key=self.request().key))
        return _stands(found[0]) if found else GONE


def _stands(instance: Any) -> Phase:
    return Phase(TrackedState.Name(instance.state)) if instance else GONE


@pytest.fixture(scope="module")
async def crm(served: Served) -> AsyncIterator[Peer]:
    """It speaks for the cloudlet, and does nothing by itself."""
    served.site.fault = lambda _noun, _asked: "silent"
    crm = Peer(served.proper.channel, filtered=True)
    crm.say(Notice(action=SENDALL_END))
    crm.tell(stubs.info())
    await crm.until(lambda: crm.names("Cloudlet"))
    yield crm
    await crm.lose()


@pytest.fixture
async def scene(noun: Noun, asked: Phase, served: Served, crm: Peer) -> AsyncIterator[Scene]:
    """What has to be there before something is asked."""
    scene = Scene(noun, f"c{next(NUMBERS)}", served.proper, crm, served.site)
    if noun is APP or asked is not CREATED:
        await scene.edge("CreateClusterInst", stubs.clusterinst(scene.name, **UNASKED))
    if noun is APP and asked is not CREATED:
        await scene.edge("CreateAppInst", stubs.appinst("shop", scene.name, **UNASKED))
    yield scene
    await cleared(served.site)


async def cleared(site: Site) -> None:
    """Whatever is left can be deleted by who insists, and gives all back."""
    await site.clear()
    assert await site.usage() == Usage()


FAULTS = ("refuses", "falls silent", "does it too late", "fails too late", "talks nonsense")


def ends(fault: str, asked: Phase, at: Phase) -> tuple[str, Phase]:
    """Why the call fails (empty: it does not), and what is left at last."""
    working, well, badly = ENDS[asked]
    if fault == "refuses":
        return "INSTANCE_FAILED", UNDONE[asked]
    if fault == "talks nonsense":
        return "", well
    if at is asked:
        return "INSTANCE_OVERDUE", UNDONE[asked]
    late = {"falls silent": working, "does it too late": well, "fails too late": badly}[fault]
    return "", READY if late is Phase.UPDATE_ERROR else late


WAYS_OUT: dict[tuple[Noun, Phase], tuple[Phase, dict[str, Any]]] = {
    **{(noun, GONE): (CREATED, {}) for noun in MESSAGES},
    **{(noun, phase): (DELETED, {}) for noun in MESSAGES for phase in (READY, Phase.CREATE_ERROR)},
    **{
        (noun, phase): (DELETED, {"crm_override": IGNORE_TRANSIENT_STATE})
        for noun in MESSAGES
        for phase in (Phase.CREATING, Phase.UPDATING, Phase.DELETING)
    },
    (CLUSTER, Phase.DELETE_ERROR): (CREATED, {}),
    (APP, Phase.DELETE_ERROR): (DELETED, {}),
}
"""What a user asks for who finds an instance so, when its resource manager does as it is told."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("noun", "asked", "at"),
    [(noun, asked, at) for noun, asked in ACTS for at in (asked, ENDS[asked][0])],
)
async def test_whatever_is_answered_a_call_leaves_what_is_left(
    asked: Phase, at: Phase, fault: str, scene: Scene
) -> None:
    working, well, badly = ENDS[asked]
    calling = await scene.call(asked)
    if at is working:
        scene.say(working)
    if fault == "refuses":
        scene.say(badly)
    elif fault == "talks nonsense":
        for word in nonsense(at):
            scene.say(word)
        scene.say(well)
    else:
        await scene.time_up(at)
    told, refusal = await calling
    reason, left = ends(fault, asked, at)
    assert (refusal.reason if refusal else "") == reason
    if fault == "talks nonsense":
        assert len(told) == (3 if at is working else 2), "nothing of it was told"
    if fault.endswith("too late"):
        scene.say(well if fault.startswith("does") else badly)
    await scene.heard()
    assert await scene.left() is left
    await scene.told(left)
    asked, more = WAYS_OUT[scene.noun, left]
    calling = await scene.call(asked, **more)
    scene.say(ENDS[asked][1])
    _, refusal = await calling
    assert refusal is None
    assert await scene.left() is ENDS[asked][1]


class Chain(NamedTuple):
    """A call that is made of several, what is done about each, and how it all ends."""

    asked: tuple[str, Phase]
    steps: tuple[tuple[str, Phase | None], ...]
    """Who is asked for, or spoken of; None: their time runs out."""
    reason: str
    left: dict[str, Phase]
    before: tuple[str, ...] = ()
    made: str = ""
    """What the cluster's name begins with: whether it is made for the app."""


AUTO = "autocluster"
CLUSTER_MADE = (("cluster", CREATED), ("cluster", READY))
APP_GONE = (("app", DELETED), ("app", GONE))
AGENT_GONE = (("agent", DELETED), ("agent", GONE))
CLUSTER_GONE = (("cluster", DELETED), ("cluster", GONE))
INSIDE = ("cluster", "agent")


def made(*steps: tuple[str, Phase | None], reason: str = "", **left: Phase) -> Chain:
    return Chain(("app", CREATED), steps, reason, left, made=AUTO)


def given_up(*steps: tuple[str, Phase | None], reason: str = "", **left: Phase) -> Chain:
    return Chain(("app", DELETED), steps, reason, left, before=("app",), made=AUTO)


def torn_down(*steps: tuple[str, Phase | None], reason: str = "", **left: Phase) -> Chain:
    return Chain(("cluster", DELETED), steps, reason, left, before=INSIDE)


CHAINS = [
    made(*CLUSTER_MADE, ("app", CREATED), ("app", READY), cluster=READY, app=READY),
    made(("cluster", CREATED), ("cluster", Phase.CREATE_ERROR), reason="INSTANCE_FAILED"),
    made(("cluster", CREATED), ("cluster", None), reason="INSTANCE_OVERDUE"),
    made(
        *(("cluster", CREATED), ("cluster", Phase.CREATING), ("cluster", None)),
        reason="APPINST_CLUSTER_NOT_READY",
    ),
    made(*(*CLUSTER_MADE, ("app", CREATED), ("app", Phase.CREATE_ERROR)), reason="INSTANCE_FAILED"),
    made(*CLUSTER_MADE, ("app", CREATED), ("app", None), reason="INSTANCE_OVERDUE"),
    made(
        *(*CLUSTER_MADE, ("app", CREATED), ("app", Phase.CREATING), ("app", None)),
        cluster=READY,
        app=Phase.CREATING,
    ),
    given_up(*APP_GONE, *CLUSTER_GONE),
    given_up(*APP_GONE, ("cluster", DELETED), ("cluster", Phase.DELETE_ERROR), cluster=READY),
    given_up(*APP_GONE, ("cluster", DELETED), ("cluster", None), cluster=READY),
    given_up(
        *(*APP_GONE, ("cluster", DELETED), ("cluster", Phase.DELETING), ("cluster", None)),
        cluster=Phase.DELETING,
    ),
    given_up(
        *(("app", DELETED), ("app", Phase.DELETE_ERROR)),
        reason="INSTANCE_FAILED",
        cluster=READY,
        app=READY,
    ),
    given_up(
        *(("app", DELETED), ("app", Phase.DELETING), ("app", None)),
        cluster=READY,
        app=Phase.DELETING,
    ),
    torn_down(*AGENT_GONE, *CLUSTER_GONE),
    torn_down(("agent", DELETED), ("agent", Phase.DELETE_ERROR), *CLUSTER_GONE),
    torn_down(("agent", DELETED), ("agent", None), *CLUSTER_GONE),
    torn_down(("agent", DELETED), ("agent", Phase.DELETING), ("agent", None), *CLUSTER_GONE),
    torn_down(
        *(*AGENT_GONE, ("cluster", DELETED), ("cluster", Phase.DELETE_ERROR)),
        reason="INSTANCE_FAILED",
        cluster=READY,
    ),
]


def called(chain: Chain) -> str:
    return "-".join([*chain.asked, *(f"{who} {phase}" for who, phase in chain.steps)])


@pytest.mark.parametrize("chain", CHAINS, ids=called)
async def test_whatever_is_answered_of_the_parts_the_whole_ends(
    chain: Chain, served: Served, crm: Peer
) -> None:
    name = f"{chain.made or 'c'}{next(NUMBERS)}"
    scenes = {
        "cluster": Scene(CLUSTER, name, served.proper, crm, served.site),
        **{
            who: Scene(APP, name, served.proper, crm, served.site, app)
            for who, app in (("app", "shop"), ("agent", "agent"))
        },
    }
    for who in chain.before:
        await served.proper(f"Create{scenes[who].noun}", scenes[who].request(**UNASKED))
    who, asked = chain.asked
    calling = scenes[who].calling(asked)
    at = asked
    for who, phase in chain.steps:
        if phase is None:
            await scenes[who].time_up(at)
        elif phase in ENDS:
            await scenes[who].told(phase)
        else:
            scenes[who].say(phase)
        at = phase or at
    _, refusal = await calling
    assert (refusal.reason if refusal else "") == chain.reason
    for who, scene in scenes.items():
        left = chain.left.get(who, GONE)
        assert await scene.left() is left
        await scene.told(left)
        assert (scene.noun, left) in WAYS_OUT
    await cleared(served.site)


async def test_what_is_busy_in_a_cluster_is_not_waited_for_for_ever(
    served: Served, crm: Peer
) -> None:
    """Its resource manager fell silent over what gives way, so the cluster is kept, until whoever
    wants it gone insists on that first."""
    name = f"c{next(NUMBERS)}"
    cluster, agent = (
        Scene(noun, name, served.proper, crm, served.site, "agent") for noun in (CLUSTER, APP)
    )
    await served.proper("CreateClusterInst", cluster.request(**UNASKED))
    creating = await agent.call(CREATED)
    agent.say(Phase.CREATING)
    await agent.time_up(Phase.CREATING)
    assert (await creating)[1] is None
    deleting = cluster.calling(DELETED)
    await cluster.told(Phase.DELETE_PREPARE)
    async with served.site.database.session(writes=True) as session:
        long_ago = now() - Patience().clusterinst_delete
        running = update(OperationRow).where(OperationRow.ended.is_(None))
        await session.execute(running.values(created=long_ago))
    _, refusal = await deleting
    assert refusal is not None
    assert refusal.message == "AppInst busy, cannot delete"
    assert (await cluster.left(), await agent.left()) == (READY, Phase.CREATING)
    await cluster.told(READY)
    for scene in (agent, cluster):
        asked, more = WAYS_OUT[scene.noun, await scene.left()]
        calling = await scene.call(asked, **more)
        scene.say(GONE)
        assert (await calling)[1] is None
    await cleared(served.site)
