"""The operations services: ours, live, and the same operations as google.longrunning."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.longrunning import operations_pb2 as long_running  # type: ignore[import-untyped]
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from api.ops.states import STAGES, STEP_STATES
from domain.cluster import Phase
from domain.errors import Exhausted, Failure
from domain.machine import Sighting
from domain.operation import Cancelled, Operation, Reached, Stage, StepState
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import operations_pb2 as pb
from tests.api.caller import Caller, read, refused, under, wanted
from tests.api.hands import Hands
from tests.support.load import limit

Get = long_running.GetOperationRequest
Wait = long_running.WaitOperationRequest
Cancel = long_running.CancelOperationRequest
Delete = long_running.DeleteOperationRequest


def test_every_stage_has_a_public_one() -> None:
    assert STAGES.keys() == set(Stage)
    assert sorted(STAGES.values()) == sorted(pb.Stage.values())[1:]


def test_every_state_of_a_step_has_a_public_one() -> None:
    assert STEP_STATES.keys() == set(StepState)
    assert sorted(STEP_STATES.values()) == sorted(pb.StepState.values())[1:]


async def created(caller: Caller, hands: Hands, name: str = "hello", **more: Any) -> Operation:
    await caller.cluster.CreateCluster(wanted(name, **more), timeout=20)
    return await hands.newest()


async def gone(caller: Caller, hands: Hands, name: str) -> Operation:
    """The delete of a cluster that was there."""
    await created(caller, hands, name)
    await hands.ended(Phase.RUNNING)
    await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name=name), timeout=20)
    return await hands.ended(Phase.GONE)


async def listed(caller: Caller, **request: Any) -> pb.ListOperationsResponse:
    return await caller.operations.List(pb.ListOperationsRequest(**request), timeout=20)


async def got(caller: Caller, operation: Operation) -> pb.Operation:
    name = f"operations/{operation.id}"
    return await caller.operations.Get(pb.GetOperationRequest(name=name), timeout=20)


async def watched(
    caller: Caller, name: str, after: int = 0, until: Callable[[pb.OperationEvent], bool] = bool
) -> list[pb.OperationEvent]:
    """The events of a watch, up to the last or the one that is waited for."""
    events = []
    async for event in caller.operations.Watch(
        pb.WatchOperationRequest(name=name, after=after), timeout=20
    ):
        events.append(event)
        if until is not bool and until(event):
            break
    return events


class TestList:
    async def test_lists_the_newest_first_a_page_at_a_time(
        self, caller: Caller, hands: Hands
    ) -> None:
        for number in range(5):
            await created(caller, hands, f"c{number}")
        subjects, token, sizes = [], "", []
        while True:
            page = await listed(caller, page_size=2, page_token=token)
            subjects += [operation.subject for operation in page.operations]
            sizes.append(len(page.operations))
            if not (token := page.next_page_token):
                break
        assert subjects == [f"cluster/c{number}" for number in (4, 3, 2, 1, 0)]
        assert sizes == [2, 2, 1]

    async def test_a_full_last_page_has_no_next(self, caller: Caller, hands: Hands) -> None:
        await created(caller, hands)
        assert not (await listed(caller, page_size=1)).next_page_token

    async def test_lists_what_is_asked_for(self, caller: Caller, hands: Hands) -> None:
        await created(caller, hands, "one")
        await hands.ended(Phase.RUNNING)
        await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="one"), timeout=20)
        await created(caller, hands, "two")
        for request, kinds in (
            ({"subject": "cluster/one"}, ["delete-cluster", "create-cluster"]),
            ({"kind": "create-cluster"}, ["create-cluster", "create-cluster"]),
            ({"stages": [pb.SUCCEEDED]}, ["create-cluster"]),
            ({"stages": [pb.REQUESTED, pb.RUNNING]}, ["create-cluster", "delete-cluster"]),
            ({"subject": "cluster/none"}, []),
        ):
            found = await listed(caller, **request)
            assert [operation.kind for operation in found.operations] == kinds
            assert not any(operation.steps for operation in found.operations)

    async def test_a_page_token_is_good_for_its_filters_only(
        self, caller: Caller, hands: Hands
    ) -> None:
        for number in range(2):
            await created(caller, hands, f"c{number}")
        token = (await listed(caller, page_size=1, stages=[1, 2])).next_page_token
        again = await listed(caller, page_size=1, stages=[2, 1, 1], page_token=token)
        assert len(again.operations) == 1
        for strange in (token[:-4], token + "AAAA", "x", "é", "AAAAAAAAAAAAAAAAAAAA"):
            refusal = await refused(listed(caller, page_token=strange, stages=[1, 2]))
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
            assert refusal.reason in {"PAGE_TOKEN_INVALID", "PAGE_TOKEN_EXPIRED"}
        refusal = await refused(listed(caller, page_token=token, subject="cluster/c0"))
        assert (refusal.reason, refusal.fields) == ("PAGE_TOKEN_INVALID", ["page_token"])

    async def test_a_page_whose_last_operation_is_gone_is_begun_anew(
        self, caller: Caller, hands: Hands
    ) -> None:
        await created(caller, hands, "old")
        ended = await gone(caller, hands, "new")
        token = (await listed(caller, page_size=1)).next_page_token
        await caller.long_running.DeleteOperation(Delete(name=ended.id), timeout=20)
        refusal = await refused(listed(caller, page_token=token))
        assert refusal.reason == "PAGE_TOKEN_EXPIRED"

    @pytest.mark.parametrize(
        ("request_", "field"),
        [
            ({"page_size": -1}, "page_size"),
            ({"stages": [0]}, "stages"),
            ({"stages": [99]}, "stages"),
            ({"subject": "a\0b"}, "subject"),
            ({"kind": "\n"}, "kind"),
        ],
    )
    async def test_refuses_what_is_no_list(
        self, request_: dict[str, Any], field: str, caller: Caller
    ) -> None:
        refusal = await refused(listed(caller, **request_))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.fields == [field]

    async def test_too_large_a_page_is_a_large_one(self, caller: Caller, hands: Hands) -> None:
        await created(caller, hands)
        assert len((await listed(caller, page_size=2**31 - 1)).operations) == 1


class TestGet:
    async def test_shows_every_step_there_will_be(self, caller: Caller, hands: Hands) -> None:
        metadata = under()
        await caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20)
        operation = await hands.begun()
        [slot] = (await hands.operations.plan(operation.id)).slots
        await hands.did(operation.id, "machines.allocate", slot.name)
        await hands.mark(operation.id, "machines.deploy", slot.name, Sighting.BEGAN)
        await hands.mark(
            operation.id, "machines.deploy", slot.name, Sighting.STUMBLED, note="MAAS answered 503"
        )
        shown = await got(caller, operation)
        assert (shown.kind, shown.subject) == ("create-cluster", "cluster/hello")
        assert (shown.stage, shown.requester) == (pb.RUNNING, "anonymous")
        assert shown.request_id == metadata[0][1]
        assert shown.last_event == 6
        assert 0 <= shown.percent < 100
        assert not shown.HasField("eta"), "some steps nobody has taken yet"
        assert not shown.HasField("ended")
        states = {step.verb: step for step in shown.steps if step.subject == slot.name}
        assert states["machines.allocate"].state == pb.DONE
        assert states["machines.allocate"].HasField("ended")
        assert states["machines.deploy"].state == pb.STUMBLED
        assert states["machines.deploy"].note == "MAAS answered 503"
        assert states["kubeadm.initialise"].state == pb.PENDING

    async def test_is_at_a_hundred_percent_only_when_it_has_succeeded(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        shown = await got(caller, operation)
        assert (shown.stage, shown.percent) == (pb.SUCCEEDED, 100)
        assert not shown.HasField("eta")
        [in_list] = (await listed(caller)).operations
        assert in_list.percent == 100

    async def test_a_failure_has_the_code_its_caller_would_have_got(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        failure = Failure.of(Exhausted("no machine left"))
        await hands.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure))
        shown = await got(caller, operation)
        assert (shown.stage, shown.percent < 100) == (pb.FAILED, True)
        assert shown.failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert (shown.failure.kind, shown.failure.message) == ("Exhausted", "no machine left")
        [in_list] = (await listed(caller)).operations
        assert in_list.percent == shown.percent

    async def test_goes_by_its_id_too(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        shown = await caller.operations.Get(pb.GetOperationRequest(name=operation.id), timeout=20)
        assert shown.name == f"operations/{operation.id}"

    @pytest.mark.parametrize("name", ["", "operations/", "a\0b", "x" * 37])
    async def test_needs_a_name(self, name: str, caller: Caller) -> None:
        calls = (
            caller.operations.Get(pb.GetOperationRequest(name=name), timeout=20),
            watched(caller, name),
            caller.long_running.GetOperation(Get(name=name), timeout=20),
            caller.long_running.WaitOperation(Wait(name=name), timeout=20),
            caller.long_running.CancelOperation(Cancel(name=name), timeout=20),
            caller.long_running.DeleteOperation(Delete(name=name), timeout=20),
        )
        for call in calls:
            refusal = await refused(call)
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
            assert refusal.fields == ["name"]

    async def test_what_nobody_knows_is_not_found(self, caller: Caller) -> None:
        name = "operations/7c1e"
        calls = (
            caller.operations.Get(pb.GetOperationRequest(name=name), timeout=20),
            watched(caller, name),
            caller.long_running.GetOperation(Get(name=name), timeout=20),
            caller.long_running.WaitOperation(Wait(name=name), timeout=20),
            caller.long_running.CancelOperation(Cancel(name=name), timeout=20),
            caller.long_running.DeleteOperation(Delete(name=name), timeout=20),
        )
        for call in calls:
            assert (await refused(call)).code is grpc.StatusCode.NOT_FOUND


class TestWatch:
    async def test_tells_what_happened_and_then_what_happens(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        watching = asyncio.create_task(watched(caller, operation.id))
        await hands.begun()
        [slot] = (await hands.operations.plan(operation.id)).slots
        await hands.did(operation.id, "machines.allocate", slot.name)
        await hands.ended(Phase.RUNNING)
        events = await watching
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert [event.last for event in events] == [False] * (len(events) - 1) + [True]
        assert events[0].note == "create-cluster of cluster/hello accepted from anonymous"
        percents = [event.operation.percent for event in events]
        assert percents == sorted(percents)
        assert (percents[-1], events[-1].operation.stage) == (100, pb.SUCCEEDED)
        [done] = [event.step for event in events if event.step.state == pb.DONE]
        assert (done.verb, done.subject) == ("machines.allocate", slot.name)
        assert not any(event.operation.steps for event in events)

    async def test_an_event_is_never_newer_than_the_operation_beside_it(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        for event in await watched(caller, operation.id):
            assert event.operation.last_event >= event.number

    async def test_a_watch_that_broke_is_taken_up_where_it_broke(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        seen = await watched(caller, operation.id, until=lambda event: event.number == 2)
        await hands.ended(Phase.RUNNING)
        rest = await watched(caller, operation.id, after=seen[-1].number)
        assert [event.number for event in [*seen, *rest]] == [1, 2, 3]

    async def test_a_watch_from_past_the_end_ends(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        assert await watched(caller, operation.id, after=1000) == []

    async def test_needs_a_place_to_begin(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        refusal = await refused(watched(caller, operation.id, after=-1))
        assert refusal.fields == ["after"]

    async def test_those_who_watch_together_see_the_same(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        watching = [asyncio.create_task(watched(caller, operation.id)) for _ in range(30)]
        await hands.ended(Phase.RUNNING)
        notes = [[event.note for event in events] for events in await asyncio.gather(*watching)]
        assert all(told == notes[0] for told in notes)


class TestLongRunning:
    async def test_shows_an_operation_as_the_standard_has_it(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert (shown.name, shown.done) == (f"operations/{operation.id}", False)
        metadata = pb.Operation()
        assert shown.metadata.Unpack(metadata)
        assert metadata == await got(caller, operation)

    async def test_what_succeeded_has_an_empty_response(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert shown.done
        assert shown.response.Is(Empty.DESCRIPTOR)

    async def test_what_failed_has_its_error(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        failure = Failure.of(Exhausted("no machine left"))
        await hands.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure))
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert shown.done
        assert shown.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert shown.error.message == "no machine left"
        info = error_details_pb2.ErrorInfo.FromString(shown.error.details[0].value)
        assert info.reason == "EXHAUSTED"

    async def test_what_was_called_off_says_by_whom(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        await caller.long_running.CancelOperation(Cancel(name=operation.id), timeout=20)
        failure = Cancelled.by("anonymous")
        await hands.clusters.reach(Reached.badly(operation.id, Phase.ERROR, failure))
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert shown.done
        assert shown.error.code == grpc.StatusCode.CANCELLED.value[0]
        assert shown.error.message == "cancelled by anonymous"

    async def test_what_was_pushed_aside_before_it_began_is_aborted(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="hello"), timeout=20)
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert shown.done
        assert shown.error.code == grpc.StatusCode.ABORTED.value[0]
        assert "another took its place" in shown.error.message

    async def test_what_still_undoes_is_not_done(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="hello"), timeout=20)
        shown = await caller.long_running.GetOperation(Get(name=operation.id), timeout=20)
        assert not shown.done

    async def test_lists_them_a_page_at_a_time(self, caller: Caller, hands: Hands) -> None:
        for number in range(3):
            await created(caller, hands, f"c{number}")
        ask = long_running.ListOperationsRequest(name="operations", page_size=2)
        first = await caller.long_running.ListOperations(ask, timeout=20)
        ask.page_token = first.next_page_token
        rest = await caller.long_running.ListOperations(ask, timeout=20)
        names = [operation.name for operation in [*first.operations, *rest.operations]]
        assert len(set(names)) == 3
        assert not rest.next_page_token

    @pytest.mark.parametrize(("field", "value"), [("name", "clusters"), ("filter", "done=true")])
    async def test_refuses_lists_it_does_not_have(
        self, field: str, value: str, caller: Caller
    ) -> None:
        ask = long_running.ListOperationsRequest(**{field: value})
        refusal = await refused(caller.long_running.ListOperations(ask, timeout=20))
        assert refusal.fields == [field]

    async def test_waits_for_the_end(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        waiting = asyncio.create_task(
            _reply(caller.long_running.WaitOperation(Wait(name=operation.id), timeout=20))
        )
        await hands.ended(Phase.RUNNING)
        assert (await waiting).done

    async def test_answers_at_once_when_it_is_over(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        waited = await caller.long_running.WaitOperation(Wait(name=operation.id), timeout=20)
        assert waited.done

    async def test_waits_no_longer_than_asked(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        patience = Duration(nanos=50_000_000)
        ask = Wait(name=operation.id, timeout=patience)
        async with limit(5):
            assert not (await caller.long_running.WaitOperation(ask, timeout=20)).done

    async def test_waits_no_longer_than_its_callers_own_deadline(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        waited = await caller.long_running.WaitOperation(Wait(name=operation.id), timeout=3)
        assert not waited.done

    async def test_refuses_to_wait_backwards(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        ask = Wait(name=operation.id, timeout=Duration(seconds=-1))
        refusal = await refused(caller.long_running.WaitOperation(ask, timeout=20))
        assert refusal.fields == ["timeout"]

    async def test_cancels_what_runs_and_again(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.begun()
        for _ in range(2):
            await caller.long_running.CancelOperation(Cancel(name=operation.id), timeout=20)
        shown = await got(caller, operation)
        assert (shown.stage, shown.cancel_requested) == (pb.RUNNING, True)
        assert not shown.HasField("eta"), "it goes backwards now"

    async def test_does_not_cancel_what_is_over(self, caller: Caller, hands: Hands) -> None:
        operation = await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        refusal = await refused(
            caller.long_running.CancelOperation(Cancel(name=operation.id), timeout=20)
        )
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "OPERATION_ENDED"
        assert refusal.facts["state"] == "succeeded"

    async def test_does_not_cancel_a_delete(self, caller: Caller, hands: Hands) -> None:
        await created(caller, hands)
        await hands.ended(Phase.RUNNING)
        await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="hello"), timeout=20)
        operation = await hands.newest()
        refusal = await refused(
            caller.long_running.CancelOperation(Cancel(name=operation.id), timeout=20)
        )
        assert refusal.reason == "NOT_CANCELLABLE"

    async def test_forgets_what_is_over_and_nothing_else(
        self, caller: Caller, hands: Hands
    ) -> None:
        operation = await created(caller, hands)
        delete = Delete(name=operation.id)
        refusal = await refused(caller.long_running.DeleteOperation(delete, timeout=20))
        assert (refusal.code, refusal.reason) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "OPERATION_RUNNING",
        )
        await hands.ended(Phase.RUNNING)
        refusal = await refused(caller.long_running.DeleteOperation(delete, timeout=20))
        assert refusal.reason == "OPERATION_IN_USE", "the cluster's delete will read its plan"
        await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="hello"), timeout=20)
        await caller.long_running.DeleteOperation(delete, timeout=20)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await got(caller, operation)
        assert read(caught.value).code is grpc.StatusCode.NOT_FOUND


async def _reply(call: Any) -> Any:
    return await call
