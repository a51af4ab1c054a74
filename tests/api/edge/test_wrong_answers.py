"""Resource managers that answer wrongly, over their real wire: whatever one says or does not say,
and whenever, its caller is told how it ended, and what is left can be left by a call."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from domain.record import Noun
from domain.tracking import Phase
from domain.usage import Usage
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import IGNORE_TRANSIENT_STATE, TrackedState
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, Notice
from tests.api.caller import Refusal
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.api.edge.test_streams import GROWN, UNASKED, time_up
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


class Scene(NamedTuple):
    """One instance, its caller, and its resource manager."""

    noun: Noun
    name: str
    edge: Edge
    crm: Peer
    site: Site

    def request(self, **more: Any) -> Any:
        if self.noun is CLUSTER:
            return stubs.clusterinst(self.name, **more)
        return stubs.appinst("shop", self.name, **more)

    async def call(self, asked: Phase, **more: Any) -> "asyncio.Task[tuple[Any, Refusal | None]]":
        """Ask for something, and wait until the resource manager has been asked for it."""
        verb = asked.partition("_")[0].capitalize()
        request = self.request(**(GROWN if asked is UPDATED else {}), **more)
        calling = asyncio.create_task(followed(self.edge, f"{verb}{self.noun}", request))
        await self.told(asked)
        return calling

    async def told(self, phase: Phase) -> None:
        """Wait until the resource manager has been told that the instance stands so."""
        kind, short = str(self.noun), self.name if self.noun is CLUSTER else f"shop@{self.name}"
        await self.crm.until(lambda: _stands(self.crm.there[kind].get(short)) is phase)

    def say(self, phase: Phase) -> None:
        """Say something of the instance; of one that is gone there is no more to say."""
        _, info = MESSAGES[self.noun]
        said = info(key=self.request().key)
        if phase is not GONE:
            said.state = TrackedState.Value(phase)
            said.errors.extend([BROKE] * phase.endswith("ERROR"))
        self.crm.tell(said, DELETE if phase is GONE else UPDATE)

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
    await served.site.clear()
    assert await served.site.usage() == Usage()


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
        await time_up(scene.noun, at)(scene.site, scene.edge, scene.name)
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
