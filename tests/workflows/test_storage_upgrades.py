"""Ceph brought to another version: held, called off, stalled and gone on with."""

from functools import partial

import pytest

from activities import waiting
from domain.errors import Conflict, DomainError, Failed, Invalid
from domain.operation import Ask, OperationId, Stage, StepKey
from domain.outline import keys
from tests.workflows.conftest import Opening
from tests.workflows.test_storage_changes import ON_SQLITE, ended
from tests.workflows.yard import Trouble, Yard

NEW = "19.2.3"
FIRST = [
    "storage.check_upgrade ceph",
    "storage.begin_upgrade ceph",
    "storage.wait_upgraded ceph",
]
LAST = "storage.wait_sound ceph"
STEPS = 6
"""Two, a look for each daemon that is replaced but the last, with which it is over, and whether all
is well."""


@ON_SQLITE
@pytest.mark.parametrize("cached", [True, False])
async def test_every_step_may_be_taken_twice_and_it_is_begun_once(
    opened: Opening, cached: bool
) -> None:
    async with opened(trouble=Trouble(repeat=True), cached=cached) as place:
        asked = await place.ask_ceph(NEW)
        foreseen = [str(key) for key in keys(await place.operations.foreseen(asked.id))]
        await place.carry_out(asked)
        assert await ended(place, asked.id, Stage.SUCCEEDED) == f"Ceph runs {NEW}"
        assert foreseen == [*FIRST, LAST] == [*place.trouble.seen[:3], place.trouble.seen[-1]]
        assert (place.world.ceph.version, place.world.ceph.begun) == (NEW, [NEW])
        told = [event.note for event in await place.journal.since(asked.id, 0)]
        assert any(f"daemons run {NEW}" in note for note in told)
        await place.look()
        again = await place.storages.request_upgrade("ceph", NEW, [NEW], Ask(method="again"))
        assert again is None


@ON_SQLITE
@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("how", ["fail", "cancel"])
async def test_whatever_ends_it_pauses_it_and_asking_again_goes_on(
    opened: Opening, step: int, how: str
) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        asked = await place.ask_ceph(NEW)
        if how == "cancel":
            trouble.at, trouble.then = step, partial(place.cancel, asked.id)
        else:

            def fail(key: StepKey) -> DomainError | None:
                hit = not key.undo and len(trouble.seen) == step + 1 and not trouble.fired
                return Failed("broken on purpose") if hit else None

            trouble.fail = fail
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        ceph = place.world.ceph
        assert not ceph.renewing or ceph.renewing_paused
        await ended(place, asked.id, Stage.FAILED if how == "fail" else Stage.CANCELLED)
        trouble.at = None
        if ceph.version != NEW:
            again = await place.ask_ceph(NEW)
            await place.carry_out(again)
            await ended(place, again.id, Stage.SUCCEEDED)
        assert (ceph.version, ceph.begun) == (NEW, [NEW])


@ON_SQLITE
async def test_a_pause_pauses_ceph_and_a_resume_goes_on(opened: Opening) -> None:
    trouble = Trouble(when=lambda key: str(key) == FIRST[2])
    async with opened(trouble=trouble) as place:
        asked = await place.ask_ceph(NEW)
        trouble.then = partial(place.pause, asked.id)
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if event.note.startswith("undo storage.pause_upgrade ceph") and "ended" in event.note:
                break
        assert place.world.ceph.renewing_paused
        await place.resume(asked.id)
        await place.finish(asked.id)
        await ended(place, asked.id, Stage.SUCCEEDED)
        assert place.world.ceph.begun == [NEW]


@ON_SQLITE
async def test_ceph_in_trouble_is_paused_and_waits_for_somebody(opened: Opening) -> None:
    trouble = Trouble(when=lambda key: str(key) == FIRST[2])
    async with opened(trouble=trouble) as place:
        asked = await place.ask_ceph(NEW)

        async def die() -> None:
            place.world.ceph.dead |= {0, 1, 2, 3}

        trouble.then = die
        await place.start(asked)
        gate = await _gate(place, asked.id)
        assert gate.startswith(f"going on to Ceph {NEW}")
        assert place.world.ceph.renewing_paused
        told = [event.note for event in await place.journal.since(asked.id, 0)]
        assert "paused in Ceph: 8 placement groups serve nobody" in told
        place.world.ceph.dead.clear()
        await place.steering.approve(asked.id, gate, "ann")
        await place.nudge(asked.id)
        await place.finish(asked.id)
        await ended(place, asked.id, Stage.SUCCEEDED)


async def _gate(place: Yard, operation: OperationId) -> str:
    async for event in place.journal.follow(operation):
        if "to be approved" in event.note:
            break
    [found] = [each for each in await place.operations.page(size=10) if each.id == operation]
    return found.gate


@ON_SQLITE
async def test_what_somebody_stopped_in_ceph_has_failed(opened: Opening) -> None:
    trouble = Trouble(when=lambda key: str(key) == FIRST[2])
    async with opened(trouble=trouble) as place:
        asked = await place.ask_ceph(NEW)

        async def stop() -> None:
            place.world.ceph.renewing = ""

        trouble.then = stop
        await place.carry_out(asked)
        said = await ended(place, asked.id, Stage.FAILED)
        assert said == f"Ceph runs 18.2.7 and is not on its way to {NEW} any more"


@ON_SQLITE
async def test_it_is_done_once_ceph_is_well(opened: Opening) -> None:
    trouble = Trouble(when=lambda key: str(key) == FIRST[1])
    async with opened(trouble=trouble) as place:
        asked = await place.ask_ceph(NEW)

        async def unsettle() -> None:
            place.world.ceph.moving = 10  # longer than daemons take

        trouble.then = unsettle
        await place.carry_out(asked)
        assert trouble.fired
        await ended(place, asked.id, Stage.SUCCEEDED)
        assert place.world.ceph.moving == 0


@ON_SQLITE
async def test_daemons_that_were_left_behind_are_no_success_and_are_gone_on_with(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager is replaced first, so it says nothing of the others."""
    monkeypatch.setattr(waiting, "A_WHILE_SECONDS", 0.1)
    trouble = Trouble(when=lambda key: str(key) == FIRST[2])
    async with opened(trouble=trouble) as place:
        asked, ceph = await place.ask_ceph(NEW), place.world.ceph

        async def stop() -> None:
            ceph.version, ceph.stray, ceph.renewing = NEW, ceph.version, ""

        trouble.then = stop
        await place.carry_out(asked)
        said = await ended(place, asked.id, Stage.FAILED)
        assert said.startswith("daemons still run 18.2.7, and Ceph is not on its way to 19.2.3")
        again = await place.ask_ceph(NEW)
        await place.carry_out(again)
        await ended(place, again.id, Stage.SUCCEEDED)
        assert (ceph.versions, ceph.begun) == ((NEW,), [NEW, NEW])


@ON_SQLITE
async def test_it_is_refused_with_all_reasons_and_keeps_others_out(opened: Opening) -> None:
    async with opened() as place:
        with pytest.raises(Invalid, match="not among the versions"):
            await place.ask_ceph("20.0.0")
        place.world.ceph.used = 0.8
        with pytest.raises(Conflict, match="80% of its space is used"):
            await place.ask_ceph(NEW)
        place.world.ceph.used = 0.1
        asked = await place.ask_ceph(NEW)
        with pytest.raises(Conflict) as refusal:
            await place.ask_marks(0)
        assert refusal.value.reason == "STORAGE_BUSY"
        place.world.ceph.outside |= {0, 1}  # what was fit for it is not any more
        await place.carry_out(asked)
        assert "active and clean" in await ended(place, asked.id, Stage.FAILED)
        assert place.world.ceph.begun == []
