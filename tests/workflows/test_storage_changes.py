"""OSDs and pools of Ceph: every step may be the last, may run twice, may be where it is called
off."""

from functools import partial

import pytest

from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable
from domain.operation import Stage, StepKey
from domain.outline import keys
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble, Yard

ON_SQLITE = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)

OUT = ["storage.check_marking ceph", "storage.mark_osd osd.0", "storage.mark_osd osd.2"]
WAITED = ["storage.wait_settled osd.0", "storage.wait_settled osd.2"]
STEPS = len(OUT + WAITED)


async def ended(place: Yard, operation: str, stage: Stage) -> str:
    """How it ended, in words."""
    found = [each for each in await place.operations.page(size=10) if each.id == operation]
    assert [each.stage for each in found] == [stage]
    *_, last = await place.journal.since(found[0].id, 0)
    assert last.last
    return last.note


@ON_SQLITE
@pytest.mark.parametrize("cached", [True, False])
async def test_osds_go_out_and_come_in_and_every_step_may_be_taken_twice(
    opened: Opening, cached: bool
) -> None:
    async with opened(trouble=Trouble(repeat=True), cached=cached) as place:
        asked = await place.ask_marks(2, 0)
        foreseen = [str(key) for key in keys(await place.operations.foreseen(asked.id))]
        await place.carry_out(asked)
        assert place.trouble.seen[: len(OUT)] == OUT
        assert sorted(place.trouble.seen) == sorted(foreseen) == sorted(OUT + WAITED)
        assert place.world.ceph.outside == {0, 2}
        assert place.world.ceph.marks == ["osd.0 out", "osd.2 out"]
        said = await ended(place, asked.id, Stage.SUCCEEDED)
        assert said == "osd.0, osd.2: nothing lies there alone"
        back = await place.ask_marks(0, 1, 2, inside=True)
        await place.carry_out(back)
        assert "placed there again" in await ended(place, back.id, Stage.SUCCEEDED)
        assert place.world.ceph.outside == set()


@ON_SQLITE
@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("inside", [False, True])
async def test_failing_anywhere_leaves_the_osds_as_they_were(
    opened: Opening, step: int, inside: bool
) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        before = {0, 2} if inside else set()
        place.world.ceph.outside |= before

        def fail(key: StepKey) -> DomainError | None:
            hit = not key.undo and len(trouble.seen) == step + 1
            return Failed("broken on purpose") if hit else None

        trouble.fail = fail
        asked = await place.ask_marks(0, 2, inside=inside)
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        assert place.world.ceph.outside == before
        assert await ended(place, asked.id, Stage.FAILED) == "broken on purpose"


@ON_SQLITE
@pytest.mark.parametrize("step", range(STEPS))
async def test_calling_it_off_anywhere_takes_them_in_again(opened: Opening, step: int) -> None:
    trouble = Trouble(at=step)
    async with opened(trouble=trouble) as place:
        asked = await place.ask_marks(0, 2)
        trouble.then = partial(place.cancel, asked.id)
        await place.carry_out(asked)
        assert trouble.fired == 1
        assert place.world.ceph.outside == set()
        assert await ended(place, asked.id, Stage.CANCELLED) == "cancelled by ann"


@ON_SQLITE
async def test_what_has_become_unsafe_meanwhile_is_not_begun(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask_marks(0)
        place.world.ceph.outside |= {1, 3}
        await place.carry_out(asked)
        assert "the pool first keeps 3 copies" in await ended(place, asked.id, Stage.FAILED)
        assert place.world.ceph.marks == []


@ON_SQLITE
async def test_a_pause_holds_the_next_mark(opened: Opening) -> None:
    trouble = Trouble(when=lambda key: str(key) == OUT[1])
    async with opened(trouble=trouble) as place:
        asked = await place.ask_marks(0, 2)

        async def pause() -> None:
            await place.steering.pause(asked.id, "ann")

        trouble.then = pause
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if event.note.startswith("paused by ann"):
                break
        assert place.world.ceph.outside == {0}
        await place.resume(asked.id)
        await place.finish(asked.id)
        assert place.world.ceph.outside == {0, 2}


@ON_SQLITE
async def test_what_is_still_to_be_moved_is_told_and_waited_for(opened: Opening) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:

        def fail(key: StepKey) -> DomainError | None:
            moving = key.verb == "storage.wait_settled" and trouble.fired < 2
            return Unavailable("3 placement groups are still to be moved") if moving else None

        trouble.fail = fail
        asked = await place.ask_marks(0)
        await place.carry_out(asked)
        await ended(place, asked.id, Stage.SUCCEEDED)
        told = [event.note for event in await place.journal.since(asked.id, 0)]
        assert any("3 placement groups are still to be moved" in note for note in told)


@ON_SQLITE
async def test_one_at_a_time(opened: Opening) -> None:
    async with opened() as place:
        first = await place.ask_marks(0)
        with pytest.raises(Conflict) as refusal:
            await place.ask_marks(2)
        assert refusal.value.reason == "STORAGE_BUSY"
        assert refusal.value.facts["operation"] == first.id
        own = await place.ask_pool()  # another thing
        with pytest.raises(Conflict):
            await place.ask_pool()
        await place.carry_out(first)
        await place.carry_out(own)
        await place.carry_out(await place.ask_marks(2))
        assert place.world.ceph.outside == {0, 2}


@ON_SQLITE
async def test_a_pool_is_made_and_deleted_and_every_step_may_be_taken_twice(
    opened: Opening,
) -> None:
    async with opened(trouble=Trouble(repeat=True)) as place:
        asked = await place.ask_pool()
        await place.carry_out(asked)
        assert "may use the pool own" in await ended(place, asked.id, Stage.SUCCEEDED)
        [entity] = place.world.identities
        assert place.world.identities == {entity: "own"}
        await place.look()
        [_, made] = await place.storages.pools("ceph")
        assert (made.name, bool(made.owner), made.owned_by) == ("own", True, "")
        place.trouble.seen.clear()
        dropped = await place.ask_drop_pool()
        with pytest.raises(Conflict, match="cannot be cancelled"):
            await place.steering.cancel(dropped.id, "ann")
        await place.carry_out(dropped)
        assert place.trouble.seen == [
            f"storage.revoke_identity {entity}",
            "storage.delete_pool own",
        ]
        assert place.world.leftovers == []


@ON_SQLITE
@pytest.mark.parametrize("step", range(2))
@pytest.mark.parametrize("how", ["fail", "cancel"])
async def test_a_pool_that_is_not_finished_is_taken_back(
    opened: Opening, step: int, how: str
) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:
        asked = await place.ask_pool()
        if how == "cancel":
            trouble.at, trouble.then = step, partial(place.cancel, asked.id)
        else:

            def fail(key: StepKey) -> DomainError | None:
                hit = not key.undo and len(trouble.seen) == step + 1
                return Failed("broken on purpose") if hit else None

            trouble.fail = fail
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        assert place.world.leftovers == []
        stage = Stage.FAILED if how == "fail" else Stage.CANCELLED
        await ended(place, asked.id, stage)


@ON_SQLITE
async def test_a_pool_of_the_same_name_that_was_made_since_stays(opened: Opening) -> None:
    async with opened() as place:
        await place.carry_out(await place.ask_pool())
        dropped = await place.ask_drop_pool()
        place.world.ceph.numbers.append("own")
        await place.carry_out(dropped)
        assert list(place.world.pools) == ["own"]


@ON_SQLITE
async def test_pools_of_others_and_of_clusters_are_not_deleted(opened: Opening) -> None:
    async with opened() as place:
        with pytest.raises(Conflict) as refusal:
            await place.ask_drop_pool("first")
        assert refusal.value.reason == "CEPH_FOREIGN"
        with pytest.raises(NotFound):
            await place.ask_drop_pool("nowhere")
        asked = await place.ask(storage=True)
        await place.carry_out(asked)
        [pool] = place.world.pools
        with pytest.raises(Conflict) as refusal:
            await place.ask_drop_pool(pool)
        assert refusal.value.reason == "POOL_IN_USE"
        await place.delete(data="keep")
        await place.carry_out(await place.ask_drop_pool(pool))
        assert place.world.leftovers == []
