"""Messages as JSON: what is written is read again, and what does not fit is named."""

from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from api import documents
from domain.errors import Invalid
from protos.gen.kaas import api_pb2 as pb
from tests.api.caller import label, pool, wanted

CREATE = pb.CreateClusterMsg.DESCRIPTOR
DELETE_POOL = pb.DeleteNodePoolMsg.DESCRIPTOR

texts = st.text(st.characters(codec="utf-8"), max_size=9)
numbers = st.integers(-(2**31), 2**31 - 1)
labels = st.lists(st.builds(label, texts, texts), max_size=3)
pools = st.builds(pool, texts, labels=labels, instanceType=texts, count=numbers)
orders = st.builds(wanted, texts, k8s_version=texts, worker_node_pools=st.lists(pools, max_size=3))

names = st.sampled_from([field.name for field in CREATE.fields] + ["labels", "count", "nobody"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def refused(raw: bytes, described: Any = CREATE) -> Invalid:
    with pytest.raises(Invalid) as caught:
        documents.read(raw, described)
    assert caught.value.reason == "MALFORMED_REQUEST"
    return caught.value


@given(orders)
def test_what_is_written_is_read_again(order: Message) -> None:
    assert documents.read(documents.written(order), CREATE) == order


@given(values)
def test_whatever_is_read_is_a_message_or_invalid(value: Any) -> None:
    with suppress(Invalid):
        assert isinstance(documents.filled(value, CREATE), pb.CreateClusterMsg)


def test_names_are_those_of_the_contract_and_defaults_are_left_out() -> None:
    reply = pb.CreateClusterReply(ok=True, cluster=pb.ClusterItem(status=pb.PROVISIONING))
    reply.cluster.status_message = "é"
    written = '{"ok":true,"cluster":{"status_message":"é","status":"PROVISIONING"}}'
    assert documents.written(reply) == written.encode()
    assert documents.written(pb.GetUpgradeClusterInformationReply()) == b"{}"
    assert b'"Name":"x"' in documents.written(pb.GetClusterNodesStatusReply(Name="x"))


def test_other_spellings_of_a_field_are_read_too() -> None:
    assert documents.read(b'{"k8sVersion": "1.32.1"}', CREATE) == pb.CreateClusterMsg(
        k8s_version="1.32.1"
    )


def test_nothing_at_all_is_a_message_without_fields() -> None:
    assert documents.read(b"", CREATE) == pb.CreateClusterMsg()
    assert documents.read(b'{"control_plane_nodes": null}', CREATE) == pb.CreateClusterMsg()


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nothing",
        b'{"name": "x"} and more',
        b"\xff\xfe\xfd",
        b'{"name": "\\ud800"}',
        b"[" * 100_000,
        b'{"name": ' * 50_000,
        b'{"control_plane_nodes": {"count": ' + b"9" * 5000 + b"}}",
        b'{"control_plane_nodes": {"count": 1e999}}',
        b'{"control_plane_nodes": {"count": NaN}}',
        b'{"name": "a", "name": "b"}',
        b'{"k8s_version": "a", "k8sVersion": "b"}',
    ],
)
def test_what_is_no_document_is_refused_in_words_of_ours(raw: bytes) -> None:
    message = refused(raw).message
    assert len(message) < 200
    assert not {"Error", "Traceback", "object is not", "codec"} & set(message.split())


def test_where_a_document_ends_too_early_is_said() -> None:
    assert refused(b'{\n "name":').message == (
        "the body is not JSON: Expecting value (line 2, column 9)"
    )


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b"5", ["CreateClusterMsg"]),
        (b"[]", ["CreateClusterMsg"]),
        (b'{"nmae": "x"}', ["nmae"]),
        (b'{"\\ud800": 1, "' + b"x" * 99 + b'": 1}', ["?", "x" * 64]),
        (b'{"name": 5}', ["name"]),
        (b'{"name": ["x"]}', ["name"]),
        (b'{"control_plane_nodes": []}', ["control_plane_nodes"]),
        (b'{"control_plane_nodes": {"count": "many"}}', ["control_plane_nodes.count"]),
        (b'{"control_plane_nodes": {"count": true}}', ["control_plane_nodes.count"]),
        (b'{"control_plane_nodes": {"count": 2147483648}}', ["control_plane_nodes.count"]),
        (b'{"worker_node_pools": {}}', ["worker_node_pools"]),
        (b'{"worker_node_pools": [null]}', ["worker_node_pools[0]"]),
        (
            b'{"name": 1, "worker_node_pools": [{}, {"count": 1.5, "labels": [{"value": {}}]}]}',
            ["name", "worker_node_pools[1].count", "worker_node_pools[1].labels[0].value"],
        ),
    ],
)
def test_every_field_that_does_not_fit_is_named(raw: bytes, fields: list[str]) -> None:
    assert [violation.field for violation in refused(raw).violations] == fields


def test_of_very_many_wrong_fields_some_are_named() -> None:
    raw = b'{"worker_node_pools": [' + b",".join([b'{"nmae": 1}'] * 5000) + b"]}"
    assert len(refused(raw).violations) == documents.VIOLATIONS


def test_a_query_is_a_document_too() -> None:
    pairs = [("clusterName", "a"), ("node_pool_names", "x"), ("node_pool_names", "y")]
    assert documents.asked(pairs, DELETE_POOL) == pb.DeleteNodePoolMsg(
        clusterName="a", node_pool_names=["x", "y"]
    )
    assert documents.asked(pairs[1:2], DELETE_POOL) == pb.DeleteNodePoolMsg(node_pool_names=["x"])
    for wrong in ([("cluster", "a")], [("clusterName", "a"), ("clusterName", "b")]):
        with pytest.raises(Invalid) as caught:
            documents.asked(wrong, DELETE_POOL)
        assert [each.field for each in caught.value.violations] == [wrong[0][0]]
