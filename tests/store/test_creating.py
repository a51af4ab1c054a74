import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from domain import ports
from domain.cluster import Phase, PoolOrder
from domain.errors import AlreadyExists, Exhausted, Invalid, NotFound
from domain.machine import Label, Role, SlotPhase
from domain.operation import Kind, Stage
from domain.outline import keys, outline
from domain.ports import Stock
from store import stocks
from store.rows import (
    AnswerRow,
    ClusterRow,
    JournalRow,
    OperationRow,
    PoolRow,
    Row,
    SecretRow,
    SlotRow,
    StockRow,
    now,
)
from tests.store.desk import BUILDING, RELEASE, Desk, ask, order, until, whole

PARTS: tuple[type[Row], ...] = (
    *(ClusterRow, PoolRow, SlotRow, SecretRow),
    *(OperationRow, JournalRow, AnswerRow),
)


async def test_a_create_is_there_with_all_its_parts(desk: Desk) -> None:
    operation = await desk.create("hello", control_planes=3, workers=2)

    assert (operation.kind, operation.subject) == (Kind.CREATE_CLUSTER, "cluster/hello")
    assert (operation.stage, operation.requester) == (Stage.REQUESTED, "ann")
    cluster = await desk.clusters.get("hello")
    assert (cluster.phase, cluster.message) == (Phase.PROVISIONING, "queued")
    assert (cluster.version, cluster.endpoint) == (RELEASE.version, "hello.windlass.test")
    assert cluster.operation == operation.id
    assert not cluster.published
    nodes = await desk.clusters.nodes("hello")
    assert [state.slot.role for state in nodes.slots] == [Role.CONTROL_PLANE] * 3 + [
        Role.WORKER
    ] * 2
    assert {state.phase for state in nodes.slots} == {SlotPhase.PLANNED}
    plan = await desk.operations.plan(operation.id)
    assert plan.slots == tuple(state.slot for state in nodes.slots)
    key = await desk.vault.open(ports.ssh_key(cluster.uid))
    assert key.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    (line,) = await desk.lines(operation.id)
    assert line.note == "create-cluster of cluster/hello accepted from ann"
    (pool,) = await desk.all(PoolRow)
    assert (pool.name, pool.ordinal, pool.wanted, pool.instance_type) == ("pool", 0, 2, "big")
    (row,) = await desk.all(OperationRow)
    assert row.steps == len(keys(outline(Kind.CREATE_CLUSTER, plan)))


async def test_names_are_drawn_once_and_are_labels(desk: Desk) -> None:
    await desk.create(control_planes=5, workers=40)
    names = [state.slot.name for state in (await desk.clusters.nodes("hello")).slots]
    assert len(set(names)) == 45
    assert all(name.startswith("control-plane-") for name in names[:5])
    assert all(name.startswith("pool-") and len(name) == len("pool-") + 5 for name in names[5:])


async def test_a_repeat_with_the_same_request_id_is_the_same_operation(
    desk: Desk, other_desk: Desk
) -> None:
    first = await desk.create(asked=ask("key-1", digest="d"))
    again = await other_desk.create(asked=ask("key-1", digest="d"))
    assert again == first
    assert len(await desk.operations.page(size=10)) == 1


async def test_a_repeat_is_answered_even_when_the_operation_has_ended(desk: Desk) -> None:
    first = await desk.create(asked=ask("key-1"))
    await desk.deleted()
    again = await desk.create(asked=ask("key-1"))
    assert again.id == first.id
    with pytest.raises(NotFound):
        await desk.clusters.get("hello")


async def test_a_request_id_belongs_to_one_request_alone(desk: Desk) -> None:
    await desk.create(asked=ask("key-1", digest="a"))
    with pytest.raises(Invalid, match="request id key-1 was used before") as refused:
        await desk.create("other", asked=ask("key-1", digest="b"))
    assert refused.value.reason == "REQUEST_ID_REUSED"
    with pytest.raises(NotFound):
        await desk.clusters.get("other")


@pytest.mark.parametrize(
    "other", [ask("key-1", caller="bob"), ask("key-1", method="Other"), ask("key-2"), ask("")]
)
async def test_the_same_id_from_another_caller_or_method_is_another_request(
    desk: Desk, other: object
) -> None:
    await desk.create(asked=ask("key-1"))
    with pytest.raises(AlreadyExists):
        await desk.create(asked=other)  # type: ignore[arg-type]


async def test_a_name_is_taken_until_its_cluster_is_gone(desk: Desk) -> None:
    await desk.running()
    with pytest.raises(AlreadyExists, match="cluster hello already exists"):
        await desk.create()
    await desk.deleted()
    assert (await desk.create()).stage is Stage.REQUESTED


@pytest.mark.parametrize(
    ("phase", "do"),
    [
        (Phase.PROVISIONING, "windlass op watch {}"),
        (Phase.PROVISIONING, "windlass cluster delete hello"),
        (Phase.STOPPING, "wait until it is gone: windlass op watch {}"),
        (Phase.RUNNING, "windlass cluster delete hello"),
        (Phase.ERROR, "windlass cluster delete hello"),
    ],
)
async def test_who_wants_a_name_that_is_taken_is_told_by_which_operation(
    desk: Desk, phase: Phase, do: str
) -> None:
    operation = await desk.create()
    await desk.change(ClusterRow, {"phase": phase})
    with pytest.raises(AlreadyExists) as refused:
        await desk.create()
    assert refused.value.facts == {"operation": operation.id, "state": phase}
    assert do.format(operation.id) in refused.value.do
    assert refused.value.do.endswith("or choose another name")


async def test_a_plan_that_no_workflow_could_be_told_is_refused(desk: Desk) -> None:
    """Every machine repeats the labels of its pool."""
    labels = tuple(Label(name=f"{n:02}-{'x' * 60}", value="y" * 63) for n in range(64))
    pool = PoolOrder(name="pool", count=500, labels=labels)
    large = order().model_copy(update={"pools": (pool,)})
    with pytest.raises(Invalid, match=r"needs a plan of \d+ bytes, and at most 1048576") as no:
        await desk.clusters.request_create(large, RELEASE, BUILDING, ask("key-1"))
    assert no.value.do == "ask for fewer machines, or give their pools fewer or shorter labels"
    assert [wrong.field for wrong in no.value.violations] == ["worker_node_pools"]
    for table in PARTS:
        assert await desk.all(table) == []
    plain = pool.model_copy(update={"labels": labels[:8]})
    fits = order().model_copy(update={"pools": (plain,)})
    created = await desk.clusters.request_create(fits, RELEASE, BUILDING, ask("key-1"))
    brief = await desk.operations.begin(created.id)
    assert len(brief.model_dump_json()) < 1.5 * 1024 * 1024


async def test_an_unknown_cluster_is_not_found(desk: Desk) -> None:
    for asked in (desk.clusters.get("hello"), desk.clusters.nodes("hello"), desk.delete("hello")):
        with pytest.raises(NotFound, match="there is no cluster hello") as refused:
            await asked
        assert refused.value.reason == "CLUSTER_NOT_FOUND"


async def test_clusters_are_listed_by_name(desk: Desk) -> None:
    for name in ("cherry", "apple", "banana"):
        await desk.create(name)
    await desk.deleted("banana")
    assert [cluster.name for cluster in await desk.clusters.all()] == ["apple", "cherry"]


async def test_questions_asked_together_are_answered_each(desk: Desk) -> None:
    await desk.create("apple")
    await desk.create("banana")
    answers = await asyncio.gather(
        *(desk.clusters.get(name) for name in ("apple", "none", "banana", "apple")),
        return_exceptions=True,
    )
    names = [getattr(answer, "name", type(answer).__name__) for answer in answers]
    assert names == ["apple", "NotFound", "banana", "apple"]


async def test_of_many_who_want_a_name_at_once_one_gets_it(desk: Desk, other_desk: Desk) -> None:
    desks = (desk, other_desk)
    answers = await asyncio.gather(
        *(desks[turn % 2].create(asked=ask(f"key-{turn}")) for turn in range(12)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 11
    (created,) = (answer for answer in answers if not isinstance(answer, BaseException))
    assert (await desk.clusters.get("hello")).operation == created.id
    assert len(await desk.all(SlotRow)) == 3
    assert len(await desk.all(SecretRow)) == 1


async def test_of_many_repeats_at_once_one_creates(desk: Desk, other_desk: Desk) -> None:
    answers = await asyncio.gather(
        *(at.create(asked=ask("key-1")) for at in (desk, other_desk) * 6)
    )
    assert len({answer.id for answer in answers}) == 1
    assert whole(await desk.lines(answers[0].id))


async def test_a_repeat_that_sees_the_cluster_appear_knows_it_for_its_own(
    desk: Desk, other_desk: Desk
) -> None:
    """The first commits between the repeat's two questions, for the name and for the key."""
    create = getattr(desk.clusters.request_create, "__wrapped__")  # noqa: B009 (untyped)
    async with desk.database.session(writes=True) as session:
        if not desk.database.is_sqlite:  # there, it cannot even ask
            await session.execute(text("LOCK TABLE clusters IN ACCESS EXCLUSIVE MODE"))
        repeating = asyncio.create_task(other_desk.create(asked=ask("key-1")))
        if not desk.database.is_sqlite:
            await until(other_desk.sees_somebody_wait)
        first = await create(desk.clusters, session, order(), RELEASE, BUILDING, ask("key-1"))
    assert (await repeating).id == first.id


async def test_everything_is_accepted_before_the_pool_was_asked(desk: Desk) -> None:
    assert await desk.create(workers=500)


async def test_what_can_never_fit_is_refused(desk: Desk) -> None:
    await desk.stocks.saw(Stock(machines=10, tagged={"big": 2}))
    with pytest.raises(Exhausted, match="3 machines tagged 'big' are asked for and 2 exist") as no:
        await desk.create(workers=3)
    assert (no.value.reason, no.value.facts) == (
        "NOT_ENOUGH_MACHINES",
        {"wanted": "3", "existing": "2"},
    )
    assert await desk.create(workers=2)


async def test_tagged_and_untagged_together_must_fit_too(desk: Desk) -> None:
    await desk.stocks.saw(Stock(machines=4, tagged={"big": 4}))
    with pytest.raises(Exhausted, match="5 machines are asked for and 4 exist"):
        await desk.create(control_planes=3, workers=2)
    with pytest.raises(Exhausted, match="5 machines are asked for and 4 exist"):
        await desk.create(control_planes=5, workers=0)
    assert await desk.create(control_planes=3, workers=1)


async def test_a_tag_that_no_machine_has_is_refused(desk: Desk) -> None:
    await desk.stocks.saw(Stock(machines=10, tagged={"small": 2, "gpu": 1}))
    with pytest.raises(Invalid, match=r"worker_node_pools\[0\].instanceType: no machine") as no:
        await desk.create()
    assert no.value.reason == "UNKNOWN_INSTANCE_TYPE"
    assert no.value.do == "use one of gpu, small"
    assert [wrong.field for wrong in no.value.violations] == ["worker_node_pools[0].instanceType"]


async def test_the_latest_look_at_the_pool_counts(desk: Desk) -> None:
    await desk.stocks.saw(Stock(machines=10, tagged={}))
    with pytest.raises(Invalid, match="no machine is tagged 'big'") as no:
        await desk.create()
    assert no.value.do == "use one of none: no machine is tagged"
    await desk.stocks.saw(Stock(machines=10, tagged={"big": 10}))
    assert await desk.create()


async def test_what_the_pool_held_long_ago_refuses_nothing(desk: Desk) -> None:
    """It cannot be asked any more, and machines may have been added since."""
    await desk.stocks.saw(Stock(machines=1, tagged={}))
    await desk.change(StockRow, {"seen": now() - stocks.FRESH + timedelta(minutes=1)})
    with pytest.raises(Invalid):
        await desk.create()
    await desk.change(StockRow, {"seen": now() - stocks.FRESH})
    assert await desk.create()


async def test_what_is_refused_leaves_nothing(desk: Desk) -> None:
    await desk.stocks.saw(Stock(machines=1, tagged={"big": 1}))
    with pytest.raises(Exhausted):
        await desk.create(asked=ask("key-1"))
    for table in PARTS:
        assert await desk.all(table) == []
