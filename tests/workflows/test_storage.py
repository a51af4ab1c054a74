"""A cluster with a share of Ceph: what is made for it goes with it, wherever it ends."""

from functools import partial

import pytest

from domain.cluster import Phase
from domain.errors import Conflict, DomainError, Failed
from domain.operation import Stage, StepKey
from domain.outline import keys, outline
from domain.wishes import DELETE, KEEP
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble

VERBS = ("storage.ensure_pool", "storage.ensure_identity", "kubernetes.supply")

ON_SQLITE = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


@ON_SQLITE
async def test_a_cluster_gets_its_share_and_every_step_may_be_taken_twice(opened: Opening) -> None:
    async with opened(trouble=Trouble(repeat=True)) as place:
        asked = await place.ask(storage=True)
        await place.carry_out(asked)
        plan = await place.operations.plan(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        foreseen = [str(key) for key in keys(outline(asked.kind, plan))]
        assert sorted(place.trouble.seen) == sorted(foreseen)
        assert plan.storage is not None
        pool = plan.storage.pool.name
        assert place.world.pools == {pool: plan.uid}
        assert place.world.identities == {plan.storage.identity.entity: pool}
        assert place.world.supplied == {plan.uid: pool}
        with pytest.raises(Conflict) as refused:
            await place.ask_delete()
        assert refused.value.reason == "DATA_AT_STAKE"
        place.trouble.seen.clear()
        deleted = await place.delete(data=DELETE)
        assert deleted.stage is Stage.SUCCEEDED
        plan = await place.operations.plan(deleted.id)
        foreseen = [str(key) for key in keys(outline(deleted.kind, plan))]
        assert sorted(place.trouble.seen) == sorted(foreseen)
        assert place.world.leftovers == []


@ON_SQLITE
async def test_data_that_is_kept_outlives_its_cluster(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask(storage=True)
        await place.carry_out(asked)
        plan = await place.operations.plan(asked.id)
        assert plan.storage is not None
        deleted = await place.delete(data=KEEP)
        assert deleted.stage is Stage.SUCCEEDED
        pool = plan.storage.pool.name
        assert place.world.leftovers == [f"pool {pool} is {plan.uid}'s"]
        *_, last = await place.journal.since(deleted.id, 0)
        assert f"kept in the pool {pool}" in last.note


@ON_SQLITE
@pytest.mark.parametrize("verb", VERBS)
async def test_without_its_share_there_is_no_cluster(opened: Opening, verb: str) -> None:
    trouble = Trouble()
    async with opened(trouble=trouble) as place:

        def fail(key: StepKey) -> DomainError | None:
            return Failed("broken on purpose") if key.verb == verb and not key.undo else None

        trouble.fail = fail
        asked = await place.ask(storage=True)
        await place.carry_out(asked)
        assert trouble.fired == 1
        assert place.world.leftovers == []
        operation, cluster = await place.operations.get(asked.id), await place.blue()
        assert operation.stage is Stage.FAILED
        assert cluster is not None
        assert (cluster.phase, "broken on purpose" in cluster.message) == (Phase.ERROR, True)


@ON_SQLITE
@pytest.mark.parametrize("verb", VERBS)
async def test_calling_it_off_leaves_no_share(opened: Opening, verb: str) -> None:
    trouble = Trouble(when=lambda key: key.verb == verb)
    async with opened(trouble=trouble) as place:
        asked = await place.ask(storage=True)
        trouble.then = partial(place.cancel, asked.id)
        await place.carry_out(asked)
        assert trouble.fired, "never reached"
        assert place.world.leftovers == []
        assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED


@ON_SQLITE
async def test_a_pool_of_somebody_elses_stays(opened: Opening) -> None:
    async with opened() as place:
        asked = await place.ask(storage=True)
        plan = await place.operations.plan(asked.id)
        assert plan.storage is not None
        place.world.pools[plan.storage.pool.name] = "somebody"
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.FAILED
        assert place.world.leftovers == [f"pool {plan.storage.pool.name} is somebody's"]
