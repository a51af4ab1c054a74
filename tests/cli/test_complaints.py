import socket

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from cli import calling
from tests.cli.peer import Peer, Refusal, refused
from tests.cli.running import Windlass, in_process, spawned


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_refusal_says_all_there_is_to_know(peer: Peer, windlass: Windlass) -> None:
    peer.refusals["DeleteCluster"] = Refusal(
        grpc.StatusCode.FAILED_PRECONDITION,
        "cluster hello is busy",
        (
            refused(
                "OPERATION_RUNNING",
                operation="op-7",
                state="RECONCILING",
                do="windlass op cancel op-7, or wait",
            ),
        ),
        (("x-request-id", "req-9"),),
    )
    outcome = await windlass("cluster", "delete", "hello", "--yes")
    assert outcome.code == 5
    assert outcome.out == ""
    assert outcome.err.splitlines() == [
        "error: cluster hello is busy (REASON OPERATION_RUNNING)",
        "  state: RECONCILING",
        "  do: windlass op cancel op-7, or wait",
        "  op: op-7  request: req-9",
    ]


async def test_every_field_that_is_wrong_is_named(peer: Peer, windlass: Windlass) -> None:
    violation = error_details_pb2.BadRequest.FieldViolation
    wrong: Message = error_details_pb2.BadRequest(
        field_violations=[
            violation(field="name", description="'Hello' is no DNS label"),
            violation(field="control_plane_nodes.count", description="2 is not odd"),
        ]
    )
    again: Message = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=5))
    peer.refusals["CreateCluster"] = Refusal(
        grpc.StatusCode.INVALID_ARGUMENT, "name: 'Hello' is no DNS label", (wrong, again)
    )
    outcome = await windlass("cluster", "create", "Hello", "--request-id", "key-1")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "error: name: 'Hello' is no DNS label (REASON INVALID_ARGUMENT)",
        "  control_plane_nodes.count: 2 is not odd",
        "  retry: in 5 s",
        "  request: key-1",
    ]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (grpc.StatusCode.NOT_FOUND, 4),
        (grpc.StatusCode.ALREADY_EXISTS, 5),
        (grpc.StatusCode.FAILED_PRECONDITION, 5),
        (grpc.StatusCode.ABORTED, 5),
        (grpc.StatusCode.PERMISSION_DENIED, 5),
        (grpc.StatusCode.UNAUTHENTICATED, 5),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 5),
        (grpc.StatusCode.INVALID_ARGUMENT, 2),
        (grpc.StatusCode.INTERNAL, 1),
        (grpc.StatusCode.UNIMPLEMENTED, 1),
    ],
)
async def test_every_status_has_its_exit_code(
    peer: Peer, windlass: Windlass, code: grpc.StatusCode, exit_code: int
) -> None:
    peer.refusals["GetCluster"] = Refusal(code, "it is not to be")
    outcome = await windlass("cluster", "get", "hello")
    assert outcome.code == exit_code
    assert outcome.err.startswith("error: it is not to be (REASON ")


async def test_a_server_that_cannot_serve_is_not_out_of_reach(
    peer: Peer, windlass: Windlass
) -> None:
    peer.refusals["GetClusterList"] = Refusal(
        grpc.StatusCode.UNAVAILABLE, "the database does not answer", (refused("UNAVAILABLE"),)
    )
    outcome = await windlass("cluster", "list")
    assert outcome.code == 1
    assert "the database does not answer" in outcome.err


@pytest.mark.parametrize("command", [("cluster", "list"), ("op", "watch", "x"), ("op", "get", "x")])
async def test_nobody_at_the_address_is_said_in_one_line(command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{closed_port()}"
    process = await spawned(*command, "--address", address)
    out, err = await process.communicate()
    assert process.returncode == 3
    assert out == b""
    assert err.decode().splitlines() == [
        f"error: cannot reach the server at {address}",
        "  do: start one with make up, name another with --address, or ask windlass doctor",
    ]


async def test_a_server_that_hangs_is_told_apart_and_the_change_can_be_repeated(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "CHANGE_SECONDS", 0.3)
    peer.hung.add("CreateCluster")
    outcome = await windlass("cluster", "create", "hello", "--request-id", "key-1")
    assert outcome.code == 124
    assert "repeat it with --request-id key-1" in outcome.err


async def test_a_network_that_swallows_everything_is_out_of_reach(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "CHANGE_SECONDS", 0.3)
    with socket.socket() as silent:  # connections are accepted by the kernel, and nobody speaks
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        outcome = await windlass("cluster", "create", "hello", "--address", address)
    assert outcome.code == 3
    assert f"cannot reach the server at {address}" in outcome.err


async def test_what_others_say_cannot_steer_the_terminal(peer: Peer, windlass: Windlass) -> None:
    peer.refusals["GetCluster"] = Refusal(grpc.StatusCode.INTERNAL, "\x1b[2Jgone\r\nerror: fake")
    outcome = await windlass("cluster", "get", "hello")
    assert outcome.err.splitlines()[0] == "error:  [2Jgone  error: fake (REASON INTERNAL)"


async def test_a_traceback_is_shown_only_on_demand(peer: Peer, windlass: Windlass) -> None:
    peer.refusals["GetCluster"] = Refusal(grpc.StatusCode.INTERNAL, "broken")
    quiet = await windlass("cluster", "get", "hello")
    loud = await windlass("--debug", "cluster", "get", "hello")
    also_loud = await windlass("cluster", "get", "hello", "--debug")
    assert "Traceback" not in quiet.err
    assert "Traceback" in loud.err
    assert "Traceback" in also_loud.err
    assert loud.code == quiet.code == 1


@pytest.mark.parametrize(
    ("typed", "said", "path"),
    [
        (("cluster", "craete"), "No such command 'craete'. Did you mean 'create'?", "cluster"),
        (("cluster", "get"), "Missing argument 'NAME'.", "cluster get"),
        (("op", "list", "--stag", "x"), "No such option: --stag", "op list"),
        (("cluster", "list", "-o", "xml"), "'xml' is not one of", "cluster list"),
        (("op", "list", "--stage", "done"), "'done' is not one of", "op list"),
    ],
)
def test_a_slip_of_the_keyboard_is_a_complaint_too(
    typed: tuple[str, ...], said: str, path: str
) -> None:
    outcome = in_process(*typed)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert said in outcome.err
    assert f"  do: windlass {path} --help shows what it takes" in outcome.err
    assert outcome.out == ""
