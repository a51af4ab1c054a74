"""There is no state that a user cannot leave by an ordinary call: whatever a resource manager said
last, whether somebody waits for it or not, and whether it ever says anything again."""

from typing import Any

import pytest

from domain.operation import Stage
from domain.override import Override
from domain.record import Noun
from domain.tracking import Phase
from domain.usage import Usage
from store.rows import OperationRow, now
from tests.store.desk import Desk
from tests.workflows.edge import ENDS, Site, described, nonsense

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)

CLUSTER, APP = Noun.CLUSTER_INST, Noun.APP_INST
INSISTING = Override.CRM_AND_TRANSIENT_STATE
OF_CHANGES = {Phase.UPDATE_REQUESTED, Phase.UPDATING, Phase.UPDATE_ERROR, Phase.DELETE_PREPARE}
"""An app's instance is never in these."""

STATES = [
    *((CLUSTER, phase) for phase in Phase if phase is not Phase.NOT_PRESENT),
    *((APP, phase) for phase in Phase if phase not in OF_CHANGES | {Phase.NOT_PRESENT}),
]


async def brought(site: Site, desk: Desk, noun: Noun, phase: Phase, *, waits: bool) -> None:
    """An instance in a phase. Whoever brought it there waits for what comes of it, or its time was
    up; both as a resource manager leaves it that is silent from then on."""
    await site.describe()
    if noun is APP:
        await site.create_cluster(override=Override.CRM)
    asked = await (site.create_cluster() if noun is CLUSTER else site.create_app())
    if phase.startswith(("UPDAT", "DELET")) or phase is Phase.READY:
        await site.say_of("blue", noun, Phase.READY)
        await site.tracking.settle(asked.operation.id)
    if phase.startswith("UPDAT"):
        asked = await site.resize_cluster()
    if phase is Phase.DELETE_PREPARE:
        await site.create_app("agent", override=Override.CRM)
    if phase.startswith("DELET"):
        asked = await (site.delete_cluster() if noun is CLUSTER else site.delete_app())
    if not phase.endswith(("REQUESTED", "PREPARE", "READY")):
        await site.say_of("blue", noun, phase, "it broke")
    if not waits:
        ended = {"ended": now(), "stage": Stage.SUCCEEDED}
        await desk.change(OperationRow, ended, id=asked.operation.id)


async def stands(site: Site, noun: Noun) -> Phase | None:
    return (await site.phases()).get("blue" if noun is CLUSTER else "shop@blue")


async def delete(site: Site, noun: Noun, override: Override) -> Any:
    verb = site.delete_cluster if noun is CLUSTER else site.delete_app
    return await verb(override=override)


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "left"])
@pytest.mark.parametrize(("noun", "phase"), STATES)
async def test_whoever_insists_is_rid_of_it(
    desk: Desk, noun: Noun, phase: Phase, waits: bool
) -> None:
    """What it took is given back, too."""
    site = described(desk.database, desk.tail)
    await brought(site, desk, noun, phase, waits=waits)
    assert await stands(site, noun) is phase
    if (noun, phase) == (CLUSTER, Phase.DELETE_PREPARE):
        await site.delete_app("agent", override=INSISTING)
    if (noun, phase) == (CLUSTER, Phase.DELETE_ERROR):
        await site.create_cluster(override=INSISTING)
    await delete(site, noun, INSISTING)
    assert await stands(site, noun) is None
    if noun is APP:
        await site.delete_cluster(override=INSISTING)
    assert await site.usage() == Usage()


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "left"])
@pytest.mark.parametrize(("noun", "phase"), STATES)
async def test_nonsense_changes_nothing(desk: Desk, noun: Noun, phase: Phase, waits: bool) -> None:
    site = described(desk.database, desk.tail)
    await brought(site, desk, noun, phase, waits=waits)
    taken, ended = await site.usage(), await over(desk)
    for word in nonsense(phase):
        await site.say_of("blue", noun, word, "nonsense")
        assert await stands(site, noun) is phase, word
    assert (await site.usage(), await over(desk)) == (taken, ended)


async def over(desk: Desk) -> list[bool]:
    """Which operations have ended."""
    return sorted(row.ended is not None for row in await desk.all(OperationRow))


@pytest.mark.parametrize(("noun", "phase"), STATES)
async def test_an_ordinary_call_leaves_what_is_left(desk: Desk, noun: Noun, phase: Phase) -> None:
    """Where nobody waits any more. Only what was left half done has to be taken from whoever did
    it; a resource manager that does as it is told then is asked all the same."""
    site = described(desk.database, desk.tail)
    await brought(site, desk, noun, phase, waits=False)
    if (noun, phase) == (CLUSTER, Phase.DELETE_PREPARE):
        await site.delete_app("agent", override=Override.CRM)
    if (noun, phase) == (CLUSTER, Phase.DELETE_ERROR):
        await site.create_cluster()
        await site.say_of("blue", noun, Phase.READY)
    half_done = phase in {word for asked, (begun, *_) in ENDS.items() for word in (asked, begun)}
    await delete(site, noun, Override.TRANSIENT_STATE if half_done else Override.NONE)
    assert await stands(site, noun) is Phase.DELETE_REQUESTED
    await site.say_of("blue", noun, Phase.NOT_PRESENT)
    assert await stands(site, noun) is None
    if noun is APP:
        await site.delete_cluster(override=Override.CRM)
    assert await site.usage() == Usage()
