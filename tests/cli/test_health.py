import json

import pytest
import yaml
from google.protobuf.timestamp_pb2 import Timestamp
from syrupy.assertion import SnapshotAssertion

from protos.gen.ops import health_pb2 as care
from tests.cli.peer import NOON, Peer, told
from tests.cli.running import Windlass

FORMATS = ("table", "json", "yaml", "name")


def noon() -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(NOON)
    return stamp


@pytest.fixture
def sick(peer: Peer) -> Peer:
    """A cluster of which one node is lost, and a machine that nobody is given."""
    cause = care.Cause
    peer.reading = care.WhyResponse(
        cluster="hello",
        phase="degraded",
        causes=[
            cause(
                about="cluster/hello", says="hello can be used, and is short of what was asked for"
            ),
            cause(about="pool/w", says="1 of 2 nodes of w are Ready", depth=1),
            cause(about="node/w-x7k2p", says="w-x7k2p is not Ready", since=noon(), depth=2),
            cause(
                about="machine/abc123", says="abc123 is Deployed in MAAS, its power off", depth=3
            ),
        ],
        advice=[
            care.Advice(
                command="windlass cluster repair hello",
                because="w-x7k2p: restart its machine, else replace it",
            ),
            care.Advice(because="w-y2k4q was mended at 12:00:00 UTC\x1b[31m"),
        ],
    )
    peer.quarantined = [
        care.QuarantinedMachine(
            system_id="abc123",
            hostname="sly-fox",
            failures=2,
            last=noon(),
            until=noon(),
            why="Failed deployment",
            cluster="hello",
        )
    ]
    return peer


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("asked", ["cluster why hello", "machine quarantined"])
async def test_troubles_look_as_they_always_did(
    sick: Peer, windlass: Windlass, snapshot: SnapshotAssertion, form: str, asked: str
) -> None:
    outcome = await windlass(*asked.split(), "-o", form)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out == snapshot


async def test_json_and_yaml_of_a_reading_hold_the_same(sick: Peer, windlass: Windlass) -> None:
    as_json = (await windlass("cluster", "why", "hello", "-o", "json")).out
    as_yaml = (await windlass("cluster", "why", "hello", "-o", "yaml")).out
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


async def test_where_all_is_well_nothing_needs_to_be_done(peer: Peer, windlass: Windlass) -> None:
    assert "nothing needs to be done" in (await windlass("cluster", "why", "hello")).out
    outcome = await windlass("cluster", "repair", "hello", "--wait")
    assert outcome.code == 0
    assert "nothing to do" in outcome.out
    outcome = await windlass("cluster", "repair", "hello", "-o", "json")
    assert json.loads(outcome.out) == {"name": "hello", "operation": None}


async def test_a_repair_is_asked_for_and_followed(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    outcome = await windlass("cluster", "repair", "hello", "--node", "w-x", "--node", "w-y")
    assert outcome.code == 0
    assert "windlass op watch op-1" in outcome.out
    [request] = peer.requests("Repair")
    assert (request.cluster, list(request.nodes)) == ("hello", ["w-x", "w-y"])
    outcome = await windlass("cluster", "repair", "hello", "--wait")
    assert outcome.code == 0
    assert peer.requests("Watch")


async def test_a_policy_is_shown_and_set(peer: Peer, windlass: Windlass) -> None:
    assert "propose" in (await windlass("cluster", "policy", "hello")).out
    outcome = await windlass("cluster", "policy", "hello", "automatic", "-o", "json")
    assert json.loads(outcome.out) == {"name": "hello", "policy": "AUTOMATIC"}
    [request] = peer.requests("SetPolicy")
    assert request.policy == care.AUTOMATIC
    assert (await windlass("cluster", "policy", "hello", "sometimes")).code == 2


async def test_a_machine_is_let_go_again(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("machine", "lift", "abc123")
    assert outcome.code == 0
    [request] = peer.requests("Lift")
    assert request.system_id == "abc123"
    assert (await windlass("machine", "lift", "")).code == 2
    assert "there are none" in (await windlass("machine", "quarantined")).err
