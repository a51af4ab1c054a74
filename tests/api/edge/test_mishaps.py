"""A resource manager of ours that goes wrong, in every way that it can and at every piece of work:
its caller is told how it ended, what is left can be left, and nothing stays on its platform."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from agent.crm.crm import Crm
from api.edge import keys
from domain.record import Noun
from domain.tracking import Phase
from protos.gen.edge.common_pb2 import IGNORE_CRM_AND_TRANSIENT_STATE
from sim.crm import practice
from sim.faults import Fault, Faults, How
from tests.api.edge import stubs
from tests.api.edge.test_streams import GROWN, stands
from tests.api.edge.test_wrong_answers import ACTS, CLUSTER, CREATED, UNDONE, UPDATED, WAYS_OUT
from tests.api.edge.test_wrong_answers import cleared as site_cleared
from tests.api.edge.works import Served, followed
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.edge import ENDS

SECONDS = 40
NUMBERS = count()
INSISTING = {"crm_override": IGNORE_CRM_AND_TRANSIENT_STATE}
"""How one is left that has not ended: nobody else is asked who could be stuck as well."""


class Mishap(NamedTuple):
    how: How
    at: str = ""
    """`hear`: before it has taken the work up."""
    restarts: bool = False
    """Whether it is started anew once it has said that it has begun."""


MISHAPS = {
    "fails": Mishap(How.FAIL),
    "hears nothing": Mishap(How.HANG, "hear "),
    "never ends": Mishap(How.HANG),
    "is slow": Mishap(How.SLOW),
    "loses its connection": Mishap(How.DROP),
    "is started anew at once": Mishap(How.REBOOT, "hear "),
    "is started anew": Mishap(How.HANG, restarts=True),
}


def ends(mishap: str, asked: Phase) -> tuple[str, Phase]:
    """Why the call fails (empty: it does not), and what is left."""
    begun, well, _ = ENDS[asked]
    if mishap == "fails":
        return "INSTANCE_FAILED", UNDONE[asked]
    if mishap == "hears nothing":
        return "INSTANCE_OVERDUE", UNDONE[asked]
    return "", begun if mishap == "never ends" else well


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


@pytest.fixture(scope="module")
async def crm(served: Served, faults: Faults) -> AsyncIterator[Crm]:
    """It alone manages the cloudlet."""
    served.site.fault = lambda _noun, _asked: "silent"
    crm = practice(stubs.cloudlet().key, [served.address], faults)
    managing = asyncio.create_task(crm.run())

    async def is_heard() -> bool:
        [info] = await served.proper("ShowCloudletInfo", stubs.info(state=0, os_max_ram=0))
        return bool(info.controller)

    async with limit(SECONDS):
        await until(is_heard)
    yield crm
    managing.cancel()
    await asyncio.wait([managing])


@pytest.fixture
async def cleared(served: Served, crm: Crm, faults: Faults) -> AsyncIterator[None]:
    """Nothing is left afterwards, neither in the books nor on the platform."""
    yield
    faults.clear()
    await site_cleared(served.site)

    async def is_empty() -> bool:
        return not await crm.platform.carries()

    async with limit(SECONDS):
        await until(is_empty)


class Instance(NamedTuple):
    """A cluster, or the shop in it, as a caller has it."""

    noun: Noun
    name: str
    served: Served

    def request(self, **more: Any) -> Any:
        if self.noun is CLUSTER:
            return stubs.clusterinst(self.name, **more)
        return stubs.appinst(cluster=self.name, **more)

    async def call(self, asked: Phase, **more: Any) -> str:
        """Ask for something and wait until that has ended. Why it was refused, if it was."""
        request = self.request(**(GROWN if asked is UPDATED else {}), **more)
        method = f"{spoken(asked)}{self.noun}"
        _, refusal = await followed(self.served.proper, method, request)
        return refusal.reason if refusal else ""

    async def stands(self) -> Phase:
        short = self.name if self.noun is CLUSTER else f"shop@{self.name}"
        return (await self.served.site.phases()).get(short, Phase.NOT_PRESENT)


def spoken(asked: Phase) -> str:
    return asked.partition("_")[0].capitalize()


@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize(("noun", "asked"), ACTS)
async def test_whatever_befalls_it_a_call_leaves_what_is_left(
    noun: Noun, asked: Phase, mishap: str, served: Served, crm: Crm, faults: Faults
) -> None:
    how, at, restarts = MISHAPS[mishap]
    instance = Instance(noun, f"m{next(NUMBERS)}", served)
    before = [instance._replace(noun=CLUSTER)] if noun is not CLUSTER else []
    for each in [*before, *([instance] if asked is not CREATED else [])]:
        assert await each.call(CREATED) == ""
    kind = "cluster" if noun is CLUSTER else "app"
    where = f"crm {at}{spoken(asked).lower()} {kind} *"
    faults.add(Fault(where=where, how=how, seconds=0.1))
    async with limit(SECONDS):
        calling = asyncio.create_task(instance.call(asked))
        await until(lambda: bool(faults.met()[0][1]))
        if how is How.HANG:
            await stands(served.site, noun, instance.name, asked if at else ENDS[asked][0])
            key = keys.of(instance.request())
            await (crm.restart() if restarts else served.site.time_up(noun, key))
        reason, left = ends(mishap, asked)
        assert await calling == reason
        assert await instance.stands() is left
        way, more = WAYS_OUT[noun, left]
        assert await instance.call(way, **(INSISTING if mishap == "never ends" else more)) == ""
        assert await instance.stands() is ENDS[way][1]
