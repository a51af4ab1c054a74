import asyncio
import json

import grpc
import pytest
from syrupy.assertion import SnapshotAssertion

from cli import watching
from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, Refusal, Story, operation, served, told
from tests.cli.running import Windlass

FORMATS = ("table", "wide", "json", "yaml", "name")


@pytest.fixture
def history(peer: Peer) -> Peer:
    peer.stories = {
        "op-3": Story(operation("op-3", percent=42, waiting_on="a machine of type large"), []),
        "op-2": told("op-2", end=ops.FAILED),
        "op-1": told("op-1"),
    }
    return peer


@pytest.mark.parametrize("form", FORMATS)
async def test_operations_look_as_they_always_did(
    history: Peer, windlass: Windlass, snapshot: SnapshotAssertion, form: str
) -> None:
    listed = await windlass("op", "list", "-o", form)
    one = await windlass("op", "get", "op-2", "-o", form)
    assert listed.code == one.code == 0
    assert listed.out + "\n" + one.out == snapshot


async def test_a_list_is_read_page_by_page_up_to_its_limit(
    history: Peer, windlass: Windlass
) -> None:
    everything = await windlass("op", "list", "-o", "name")
    assert everything.out.split() == ["operations/op-3", "operations/op-2", "operations/op-1"]
    assert [each.page_token for each in history.requests("List")] == ["", "2"]
    assert (await windlass("op", "list", "--limit", "1", "-o", "name")).out.split() == [
        "operations/op-3"
    ]


async def test_a_list_asks_for_what_was_typed(history: Peer, windlass: Windlass) -> None:
    await windlass(
        *("op", "list", "--subject", "cluster/hello", "--kind", "create-cluster"),
        *("--stage", "running", "--stage", "failed", "--limit", "2"),
    )
    [request] = history.requests("List")
    assert (request.subject, request.kind) == ("cluster/hello", "create-cluster")
    assert list(request.stages) == [ops.RUNNING, ops.FAILED]
    assert request.page_size == 2


async def test_no_operations_are_told_apart_from_no_answer(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("op", "list")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "there are no such operations\n"


async def test_what_a_forced_delete_left_is_said_wherever_its_end_is(
    peer: Peer, windlass: Windlass
) -> None:
    story = told("op-1")
    left = ops.LeftBehind(node="worker-x7k2p", system_id="abc123", why="MAAS answered 503")
    story.operation.left_behind.append(left)
    peer.next_operation, peer.stories["op-1"] = "op-1", story
    assert (await windlass("op", "list")).out.splitlines()[1].endswith("   1 left behind")
    outcome = await windlass("cluster", "delete", "hello", "--yes", "--force", "--wait")
    assert outcome.out.splitlines()[-1].endswith("succeeded in 10 s, 1 left behind")


async def test_an_operation_may_be_named_in_full(history: Peer, windlass: Windlass) -> None:
    bare = await windlass("op", "get", "op-1", "-o", "json")
    assert (await windlass("op", "get", "operations/op-1", "-o", "json")).out == bare.out


async def test_watching_in_a_pipe_gives_a_line_for_every_event(
    history: Peer, windlass: Windlass, snapshot: SnapshotAssertion
) -> None:
    outcome = await windlass("op", "watch", "op-1")
    assert outcome.code == 0
    assert outcome.out == snapshot


async def test_watching_gives_programs_a_document_for_every_event(
    history: Peer, windlass: Windlass
) -> None:
    outcome = await windlass("op", "watch", "op-1", "-o", "json")
    events = [json.loads(line) for line in outcome.out.splitlines()]
    assert [event["number"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert events[2]["step"]["verb"] == "machines.deploy"
    assert events[5]["last"] is True
    assert events[5]["operation"]["stage"] == "SUCCEEDED"
    assert outcome.err == ""


async def test_a_watch_goes_on_where_its_stream_broke(peer: Peer, windlass: Windlass) -> None:
    story = told("op-1")
    story.breaks = [2, 4]
    peer.stories["op-1"] = story
    outcome = await windlass("op", "watch", "op-1", "-o", "json")
    assert outcome.code == 0
    assert [json.loads(line)["number"] for line in outcome.out.splitlines()] == [1, 2, 3, 4, 5, 6]
    assert [each.after for each in peer.requests("Watch")] == [0, 2, 4]
    assert outcome.err.count("connection lost") == 2


async def test_a_watch_outlives_its_server(peer: Peer, windlass: Windlass) -> None:
    story = told("op-1")
    story.holds[4] = asyncio.Event()
    peer.stories["op-1"] = story
    async with served(peer) as server:
        address = peer.address
        watching = asyncio.create_task(windlass("op", "watch", "op-1", "--address", address))
        await peer.until_asked("Watch")
        await server.stop(0)
    story.holds[4].set()
    async with served(peer, int(address.rpartition(":")[2])):
        outcome = await watching
    assert outcome.code == 0
    assert outcome.out.count("machines.deploy done") == 1
    assert outcome.out.count("connection lost") == 1
    assert "succeeded in" in outcome.out


async def test_a_stream_that_ends_too_early_is_taken_up_again(
    peer: Peer, windlass: Windlass
) -> None:
    story = told("op-1")
    ending = story.events.pop()
    peer.stories["op-1"] = story

    async def finish() -> None:
        await peer.until_asked("Watch", times=2)
        story.events.append(ending)

    finishing = asyncio.create_task(finish())
    outcome = await windlass("op", "watch", "op-1")
    await finishing
    assert outcome.code == 0
    assert outcome.out.count("the end") == 1


async def test_an_end_that_was_told_before_the_break_is_still_an_end(
    peer: Peer, windlass: Windlass
) -> None:
    story = told("op-1")
    story.events[-1].last = False
    peer.stories["op-1"] = story
    outcome = await windlass("op", "watch", "op-1")
    assert outcome.code == 0
    assert len(peer.requests("Watch")) == 1


async def test_a_watch_that_is_refused_again_and_again_gives_up(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "PATIENCE_SECONDS", 0.5)
    peer.stories["op-1"] = Story(operation("op-1"), [])
    peer.refusals["Watch"] = Refusal(grpc.StatusCode.INTERNAL, "a bug")
    outcome = await windlass("op", "watch", "op-1")
    assert outcome.code == 1
    assert "error: a bug" in outcome.err
    assert len(peer.requests("Watch")) > 1


async def test_a_watch_of_what_does_not_exist_is_not_found(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("op", "watch", "nowhere")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.startswith("error: operation nowhere does not exist (REASON NOT_FOUND)")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (ops.FAILED, "failed: no machine is left (REASON Exhausted)"),
        (ops.CANCELLED, "was cancelled"),
        (ops.SUPERSEDED, "was given up: another operation took its place"),
    ],
)
async def test_watching_what_does_not_succeed_fails(
    peer: Peer, windlass: Windlass, end: "ops.Stage.ValueType", said: str
) -> None:
    peer.stories["op-1"] = told("op-1", end=end)
    outcome = await windlass("op", "watch", "op-1")
    assert outcome.code == 1
    assert said in outcome.err


async def test_cancelling_asks_and_says_how_to_follow(history: Peer, windlass: Windlass) -> None:
    outcome = await windlass("op", "cancel", "operations/op-3")
    assert outcome.code == 0
    assert outcome.out == (
        "operation op-3 was asked to stop\n  follow it with windlass op watch op-3\n"
    )
    assert [each.name for each in history.requests("CancelOperation")] == ["operations/op-3"]


async def test_waiting_for_a_cancel_succeeds_once_it_is_cancelled(
    peer: Peer, windlass: Windlass
) -> None:
    peer.stories["op-1"] = told("op-1", end=ops.CANCELLED)
    assert (await windlass("op", "cancel", "op-1", "--wait")).code == 0


async def test_waiting_for_a_cancel_that_came_too_late_fails(
    peer: Peer, windlass: Windlass
) -> None:
    peer.stories["op-1"] = told("op-1")
    outcome = await windlass("op", "cancel", "op-1", "--wait")
    assert outcome.code == 1
    assert "error: create-cluster cluster/hello ended SUCCEEDED" in outcome.err
