"""What is due for instances, and what they have of nodes: the books of it always balance."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import timedelta

import pytest

from domain.agents import ENDED, STALE, STOPPED, Copy
from domain.errand import Outcome, Stumble, What
from domain.errors import AlreadyExists, Conflict, Failure, NotFound
from domain.instance import Call, InstanceEvent, InstanceUid, Phase, Port, Report, Restart
from domain.node import Said
from domain.placement import Amounts, Demands
from store.engine import Database
from store.neglect import Neglect
from store.nodes import Leases
from tests.store.dock import HUNDRED, TENANT, Dock, ask, wanted

LOST = Leases(lost=timedelta(0))


@pytest.fixture
async def dock(database: Database) -> AsyncIterator[Dock]:
    dock = Dock(database)
    yield dock
    await dock.close()


async def lose(dock: Dock, *nodes: str) -> None:
    """Have these nodes be silent for too long, and the others not."""
    kept = [view.id for view in await dock.nodes.all() if view.id not in nodes]
    await Dock(dock.database, LOST).nodes.expire()
    for id in kept:
        await dock.nodes.hear(id, Said.RUNNING, "", HUNDRED, Amounts())


async def test_k10_k11_reservations_count_and_equal_nodes_fill_in_turn(dock: Dock) -> None:
    await dock.node("b")
    await dock.node("a")
    went = [(await dock.at(await dock.placed(f"web-{number}"))).node for number in range(4)]
    assert went == ["a", "b", "a", "b"]
    assert await dock.balance() == {"a": 20, "b": 20}


async def test_k14_without_room_it_fails_and_says_by_how_much(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.placed(limit=Amounts(cpu=96))
    view = await dock.at(uid)
    assert await dock.phases(uid) == [Phase.SCHEDULING, Phase.FAILED]
    assert view.says.startswith("not enough resources: a lacks 1 cpu (96 wanted")
    assert (await dock.due(uid)).what is What.OVER


async def test_k16_an_id_that_lives_is_taken_and_free_once_it_is_over(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs()
    with pytest.raises(AlreadyExists, match="already exists and is running"):
        await dock.create()
    await dock.wish(Call.DESTROY)
    await dock.done(uid, What.DESTROY)
    again = await dock.placed()
    view = await dock.at(again)
    assert (again != uid, view.phase, view.incarnation) == (True, Phase.SCHEDULED, 2)


async def test_k04_what_is_put_is_got_held_while_it_is_changed_and_gone_when_it_is_not_there(
    dock: Dock,
) -> None:
    with pytest.raises(NotFound):
        await dock.instances.get(TENANT, "web-1")
    await dock.node("a")
    uid = await dock.runs()
    assert (await dock.instances.get(TENANT, "web-1")).uid == uid
    asking = [dock.instances.ask_for(TENANT, "web-1", Call.STOP) for _ in range(8)]
    news = [new for _, new in await asyncio.gather(*asking)]
    assert news.count(True) == 1  # the others waited for the row, and found it done
    await dock.nodes.unregister("a")
    assert [view.id for view in await dock.nodes.all()] == []
    assert [view.id for view in await dock.nodes.all(gone=True)] == ["a"]


async def test_a_repeated_request_finds_the_instance_that_it_made(dock: Dock) -> None:
    first = await dock.instances.request_create(wanted(), ask("key", "digest"))
    again = await dock.instances.request_create(wanted(), ask("key", "digest"))
    assert again.uid == first.uid


async def test_k19_k20_stop_keeps_start_goes_on_and_destroy_ends(dock: Dock) -> None:
    with pytest.raises(NotFound):
        await dock.wish(Call.STOP)
    await dock.node("a")
    uid = await dock.runs(ports=(Port(source=80, destination=80), Port(destination=81)))
    assert await dock.ports() == [("a", 80), ("a", 30_000)]
    assert (await dock.wish(Call.STOP)).phase is Phase.STOPPING
    assert (await dock.instances.ask_for(TENANT, "web-1", Call.STOP))[1] is False
    with pytest.raises(Conflict):
        await dock.wish(Call.START)
    await dock.done(uid, What.STOP, kept=True)
    assert (await dock.due(uid)).what is What.WAIT
    assert await dock.balance() == {"a": 10}  # it may be started where it was
    assert (await dock.wish(Call.START)).phase is Phase.STARTING
    await dock.done(uid, What.START)
    await dock.says(uid, Phase.RUNNING)
    await dock.wish(Call.DESTROY)
    await dock.done(uid, What.DESTROY)
    assert (await dock.wish(Call.DESTROY)).phase is Phase.TERMINATED
    with pytest.raises(Conflict):
        await dock.wish(Call.START)
    assert await dock.phases(uid) == [
        *(Phase.SCHEDULING, Phase.SCHEDULED, Phase.RUNNING, Phase.STOPPING, Phase.STOPPED),
        *(Phase.STARTING, Phase.RUNNING, Phase.DESTROYING, Phase.TERMINATED),
    ]
    assert (await dock.balance(), await dock.ports()) == ({"a": 0}, [])
    assert (await dock.due(uid)).what is What.OVER


async def test_a_stop_before_it_has_a_place_cancels_that(dock: Dock) -> None:
    uid = await dock.create()
    assert (await dock.wish(Call.STOP)).phase is Phase.STOPPED
    assert (await dock.due(uid)).what is What.WAIT
    await dock.node("a")
    assert (await dock.wish(Call.START)).phase is Phase.SCHEDULING
    await dock.settle(uid, What.PLACE)
    assert (await dock.at(uid)).node == "a"


async def test_a_stop_that_removes_is_the_end(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs(keeps=False)
    assert (await dock.wish(Call.STOP)).phase is Phase.STOPPING
    await dock.done(uid, What.MOVE)  # it is given its time first
    await dock.settle(uid, What.END)
    assert (await dock.at(uid)).phase is Phase.TERMINATED
    hurried = await dock.runs(keeps=False)
    await dock.wish(Call.STOP)
    await dock.wish(Call.DESTROY)
    await dock.done(hurried, What.DESTROY)


async def test_whoever_speaks_of_an_earlier_turn_changes_nothing(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs()
    late = await dock.due(uid)
    await dock.wish(Call.STOP)
    report = Report(phase=Phase.TERMINATED)
    assert await dock.observing.observe(late, report) is False
    assert await dock.observing.order(late) is None
    await dock.placing.done(Outcome(errand=late.model_copy(update={"what": What.DESTROY})))
    await dock.placing.settle(late.model_copy(update={"what": What.LEAVE}))
    assert (await dock.at(uid)).phase is Phase.STOPPING


async def test_who_ends_by_itself_is_run_again_in_its_place_after_a_pause(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs(restart=Restart.ON_FAILURE)
    assert await dock.says(uid, Phase.FAILED, "exit 3") is False
    view = await dock.at(uid)
    assert (view.phase, view.incarnation, view.restarts) == (Phase.STARTING, 2, 1)
    assert view.says == "exit 3; run again in 1 s (restart 1)"
    waiting = await dock.due(uid)
    assert (waiting.what, waiting.until) == (What.WAIT, view.waits_until)
    assert await dock.balance() == {"a": 10}


async def test_who_ends_well_is_over_and_its_copy_is_removed(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs(ports=(Port(source=80, destination=80),))
    await dock.says(uid, Phase.TERMINATED, "exit 0")
    assert (await dock.balance(), await dock.ports()) == ({"a": 0}, [("a", 80)])
    await dock.done(uid, What.CLEAN)
    assert (await dock.leftovers(), await dock.ports()) == ([], [])
    assert (await dock.due(uid)).what is What.OVER


async def test_k23_k24_a_lost_node_is_left_and_cleaned_once_it_is_back(dock: Dock) -> None:
    await dock.node("a")
    await dock.node("b", HUNDRED)
    kept = await dock.runs("kept", restart=Restart.ALWAYS)
    single = await dock.runs("single")
    assert ((await dock.at(kept)).node, (await dock.at(single)).node) == ("a", "b")
    await lose(dock, "a", "b")
    await dock.node("c")
    silent = Neglect(dock.database, lost=timedelta(0))
    assert set(await silent.unattended(timedelta(0))) == {kept, single}
    assert await dock.neglect.unattended(timedelta(0)) == [], "they have been roused just now"
    await dock.settle(single, What.LEAVE)
    assert (await dock.at(single)).says == "Node is terminated: b is lost"
    await dock.settle(kept, What.LEAVE)
    await dock.settle(kept, What.PLACE)
    view = await dock.at(kept)
    assert (view.phase, view.node, view.incarnation) == (Phase.SCHEDULED, "c", 2)
    assert await dock.balance() == {"a": 0, "b": 0, "c": 10}
    assert (await dock.due(kept)).what is What.ATTEND
    assert (await dock.due(single)).what is What.OVER  # until its node is back
    await dock.node("a")
    await dock.node("b")
    assert set(await dock.neglect.unattended(timedelta(hours=1))) == {kept, single}
    clean = await dock.due(kept)
    assert (clean.what, clean.node, clean.incarnation) == (What.CLEAN, "a", 1)
    order = await dock.observing.order(clean)
    assert order is not None
    assert order.incarnation == 1
    await dock.done(kept, What.CLEAN)
    await dock.done(single, What.CLEAN)
    assert await dock.leftovers() == []
    assert (await dock.due(kept)).what is What.ATTEND


async def test_a_node_that_is_heard_of_again_is_not_left_after_all(dock: Dock) -> None:
    """Whatever was decided while it was away, its copy is well."""
    await dock.node("a")
    uid = await dock.runs()  # and nothing would bring it back
    await lose(dock, "a")
    leaving = await dock.due(uid)
    assert leaving.what is What.LEAVE
    await dock.nodes.hear("a", Said.RUNNING, "", HUNDRED, Amounts())
    assert (await dock.placing.settle(leaving)).what is What.ATTEND
    view = await dock.at(uid)
    assert (view.phase, view.node) == (Phase.RUNNING, "a")


async def test_what_a_node_stopped_by_itself_is_started_once_the_node_stays(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs()
    assert await dock.says(uid, Phase.STOPPING) is True
    assert await dock.says(uid, Phase.STOPPING, STOPPED) is False
    await dock.nodes.hear("a", Said.STOPPING, "draining", HUNDRED, Amounts())
    assert (await dock.due(uid)).what is What.WAIT
    await dock.node("a")
    await dock.done(uid, What.START)
    assert (await dock.due(uid)).what is What.ATTEND
    await dock.says(uid, Phase.RUNNING)
    assert [str(phase) for phase in await dock.phases(uid)][-4:] == [
        *("running", "stopping", "stopping", "running"),
    ]


async def test_what_a_node_stopped_by_itself_runs_elsewhere_once_the_node_has_left(
    dock: Dock,
) -> None:
    await dock.node("a")
    uid = await dock.runs(restart=Restart.ALWAYS)
    await dock.says(uid, Phase.STOPPING, STOPPED)
    await dock.nodes.unregister("a")
    await dock.node("b")
    await dock.settle(uid, What.LEAVE)
    await dock.settle(uid, What.PLACE)
    assert (await dock.at(uid)).node == "b"


async def test_what_a_node_stopped_stays_stopped_if_that_is_wished(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs()
    late = await dock.due(uid)
    await dock.wish(Call.STOP)
    stopped = Report(phase=Phase.STOPPING, says=STOPPED)
    assert await dock.observing.observe(late, stopped) is False
    await dock.done(uid, What.STOP, kept=True)
    assert (await dock.due(uid)).what is What.WAIT


async def test_who_has_run_waits_for_room_when_its_node_is_lost(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs(restart=Restart.ALWAYS)
    await lose(dock, "a")
    await dock.settle(uid, What.LEAVE)
    await dock.settle(uid, What.PLACE)
    view = await dock.at(uid)
    assert (view.phase, view.says) == (
        Phase.SCHEDULING,
        "waits for room: no available nodes: a is lost",
    )
    assert (await dock.due(uid)).what is What.WAIT


async def test_k25_a_node_that_refuses_is_left_for_the_next_best(dock: Dock) -> None:
    await dock.node("a")
    await dock.node("b")
    uid = await dock.placed()
    failure = Failure(kind="Failed", message="nobody answers")
    await dock.placing.stumbled(Stumble(errand=await dock.due(uid), failure=failure))
    assert (await dock.balance(), await dock.leftovers()) == ({"a": 0, "b": 0}, [("a", "web-1")])
    await dock.done(uid, What.CLEAN)
    await dock.settle(uid, What.PLACE)
    view = await dock.at(uid)
    assert (view.node, view.incarnation) == ("b", 2)
    await dock.placing.stumbled(Stumble(errand=await dock.due(uid), failure=failure))
    await dock.done(uid, What.CLEAN)
    await dock.settle(uid, What.PLACE)
    assert (await dock.at(uid)).says == "not enough resources: a has refused it; b has refused it"


async def test_a_newer_copy_than_is_known_is_caught_up_with_where_it_is(dock: Dock) -> None:
    """After a restore: the agent would refuse what we know of for ever."""
    await dock.node("a")
    uid = await dock.placed()
    stale = Failure(kind="Conflict", message="a newer one is here", reason=STALE)
    await dock.placing.stumbled(Stumble(errand=await dock.due(uid), failure=stale))
    await dock.says(uid, Phase.RUNNING)
    await dock.placing.stumbled(Stumble(errand=await dock.due(uid), failure=stale))
    due = await dock.due(uid)
    assert (due.what, due.node, due.incarnation) == (What.ATTEND, "a", 3)
    await dock.wish(Call.STOP)
    await dock.done(uid, What.STOP, kept=True)
    await dock.wish(Call.START)
    start = await dock.due(uid)
    assert start.what is What.START
    await dock.placing.stumbled(Stumble(errand=start, failure=stale))
    due = await dock.due(uid)
    assert (due.what, due.node, due.incarnation) == (What.ATTEND, "a", 4)


async def test_what_was_stopped_and_found_dead_is_made_anew_when_it_is_to_start(dock: Dock) -> None:
    """Its agent and it were killed while it was being stopped: nothing is left that could run."""
    await dock.node("a")
    uid = await dock.runs()
    await dock.wish(Call.STOP)
    await dock.done(uid, What.STOP, kept=True)
    await dock.wish(Call.START)
    dead = Failure(kind="Conflict", message="it has ended: lost", reason=ENDED)
    await dock.placing.stumbled(Stumble(errand=await dock.due(uid), failure=dead))
    due = await dock.due(uid)
    assert (due.what, due.node, due.incarnation) == (What.ATTEND, "a", 2)


async def test_only_copies_of_whoever_is_not_placed_there_are_nobodys(dock: Dock) -> None:
    await dock.node("a")
    await dock.placed("placed")
    over = await dock.runs("over")
    await dock.says(over, Phase.TERMINATED)
    held = [Copy(instance=id, incarnation=2) for id in ("placed", "over", "unknown")]
    known = Copy(instance="over", incarnation=1)
    assert await dock.nodes.strays("a", [*held, known]) == held[1:]


async def test_k27_a_host_port_that_is_taken_is_found_elsewhere_and_given_way_to(
    dock: Dock,
) -> None:
    await dock.node("a")
    await dock.node("b")
    port = (Port(source=18080, destination=80),)
    first = await dock.runs("first", ports=port, limit=Amounts())
    second = await dock.runs("second", ports=port, limit=Amounts())
    third = await dock.placed("third", ports=port, limit=Amounts())
    assert [(await dock.at(uid)).node for uid in (first, second, third)] == ["a", "b", ""]
    assert "a has host port 18080 taken" in (await dock.at(third)).says
    await dock.says(first, Phase.TERMINATED)
    again = await dock.placed("first", ports=port, limit=Amounts())
    assert (await dock.at(again)).node == "a"  # its agent removes the older copy first
    assert (await dock.due(first)).what is What.OVER


async def test_a_copy_that_was_left_is_remembered_where_the_next_one_does_not_go(
    dock: Dock,
) -> None:
    subnet = (await dock.node("a")).subnet.removesuffix(".0/24")
    await dock.runs("other", ip=f"{subnet}.9")
    first = await dock.runs("first")
    await dock.says(first, Phase.TERMINATED)
    again = await dock.placed("first", ip=f"{subnet}.9")
    assert (await dock.at(again)).phase is Phase.FAILED
    assert await dock.leftovers() == [("a", "first")]
    assert (await dock.due(first)).what is What.CLEAN


async def test_who_is_stopped_leaves_a_node_that_is_drained_and_stays_stopped(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.runs()
    await dock.wish(Call.STOP)
    await dock.done(uid, What.STOP, kept=True)
    await dock.nodes.drain("a", timedelta(hours=1))
    assert (await dock.draining.step("a")).told == (uid,)
    await dock.done(uid, What.MOVE)
    view = await dock.at(uid)
    assert (view.phase, view.node) == (Phase.STOPPED, "")
    assert (await dock.draining.step("a")).over
    assert (await dock.wish(Call.START)).phase is Phase.SCHEDULING


async def test_an_address_is_given_in_the_nodes_subnet(dock: Dock) -> None:
    subnet = (await dock.node("a")).subnet.removesuffix(".0/24")
    first = await dock.at(await dock.placed("web-1"))
    own = await dock.at(await dock.placed("web-2", ip=f"{subnet}.9"))
    taken = await dock.at(await dock.placed("web-3", ip=f"{subnet}.9"))
    assert (first.ip, own.ip, taken.phase) == (f"{subnet}.2", f"{subnet}.9", Phase.FAILED)
    assert await dock.balance() == {"a": 20}


async def test_any_number_of_schedulers_never_fill_a_node_beyond_its_ceiling(
    database: Database,
) -> None:
    docks = [Dock(database) for _ in range(4)]
    for id in ("a", "b"):
        await docks[0].node(id)
    most = {"demands": Demands(workload="w", most_per_node=5)}
    uids = [await docks[0].create(f"web-{number}", **most) for number in range(16)]

    async def place(number: int) -> None:
        for uid in uids[number::4]:
            await docks[number].settle(uid, What.PLACE)

    await asyncio.gather(*map(place, range(4)))
    views = [await docks[0].at(uid) for uid in uids]
    assert [view.phase for view in views].count(Phase.SCHEDULED) == 10
    assert await docks[0].balance() == {"a": 50, "b": 50}
    assert len({(view.node, view.ip) for view in views if view.node}) == 10


async def test_a_plan_says_what_every_node_is_to_it(dock: Dock) -> None:
    await dock.node("a")
    await dock.node("b", Amounts(cpu=10, memory=100, disk=100))
    best, other = await dock.placing.plan(wanted())
    assert (best.node, best.shortfalls, other.node) == ("a", (), "b")
    assert other.shortfalls[0].startswith("lacks 1 cpu")
    assert await dock.balance() == {"a": 0, "b": 0}


async def test_a_follower_hears_every_line_once_until_it_is_over(dock: Dock) -> None:
    await dock.node("a")
    uid = await dock.create()

    async def follow(after: int) -> list[tuple[int, Phase]]:
        heard: list[tuple[int, Phase]] = []
        async for _, events in dock.instances.follow(uid, after=after):
            heard += [(event.number, event.phase) for event in events]
        return heard

    followers = [asyncio.create_task(follow(after)) for after in (0, 2)]
    await dock.settle(uid, What.PLACE)
    await dock.says(uid, Phase.RUNNING)
    await dock.says(uid, Phase.TERMINATED)
    whole, rest = await asyncio.gather(*followers)
    assert [number for number, _ in whole] == [1, 2, 3, 4]
    assert rest == whole[2:]
    assert await follow(0) == whole


async def test_how_it_stands_is_no_older_than_what_is_told_with_it(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would be RUNNING and use nothing."""
    await dock.node("a")
    uid = await dock.placed()
    errand, since = await dock.due(uid), dock.instances.since

    async def meanwhile(uid: InstanceUid, after: int) -> Sequence[InstanceEvent]:
        report = Report(phase=Phase.RUNNING, used=Amounts(cpu=7))
        await dock.observing.observe(errand, report)
        return await since(uid, after)

    monkeypatch.setattr(dock.instances, "since", meanwhile)
    async with aclosing(dock.instances.follow(uid)) as seen:
        view, events = await anext(seen)
    assert (events[-1].phase, view.used.cpu) == (Phase.RUNNING, 7)
