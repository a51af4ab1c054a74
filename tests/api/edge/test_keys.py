"""Keys as text, as the first controller wrote them."""

import pytest
from google.protobuf.message import Message

from api.edge import keys
from domain.errors import Invalid
from protos.gen.edge.app_pb2 import AppKey
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInstKey
from protos.gen.edge.developer_pb2 import DeveloperKey
from protos.gen.edge.node_pb2 import NODE_CRM, NodeKey
from protos.gen.edge.operator_pb2 import OperatorKey

CLOUDLET = CloudletKey(operator_key=OperatorKey(name="o"), name="n")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (DeveloperKey(name="d"), '{"name":"d"}'),
        (DeveloperKey(), "{}"),
        (
            AppKey(developer_key=DeveloperKey(name="d"), name="a", version="1"),
            '{"developer_key":{"name":"d"},"name":"a","version":"1"}',
        ),
        (CloudletKey(name="n"), '{"operator_key":{},"name":"n"}'),
        (
            ClusterInstKey(cluster_key=ClusterKey(name="c1"), cloudlet_key=CLOUDLET, developer="d"),
            '{"cluster_key":{"name":"c1"},"cloudlet_key":{"operator_key":{"name":"o"},'
            '"name":"n"},"developer":"d"}',
        ),
        (
            NodeKey(name="x", node_type=NODE_CRM),
            '{"name":"x","node_type":2,"cloudlet_key":{"operator_key":{}}}',
        ),
        (DeveloperKey(name='A & B "<é>"\n'), '{"name":"A \\u0026 B \\"\\u003cé\\u003e\\"\\n"}'),
    ],
)
def test_a_key_is_compact_json(key: Message, text: str) -> None:
    assert keys.written(key) == text


def test_a_key_that_no_index_takes_is_refused() -> None:
    assert keys.written(DeveloperKey(name="d" * 1189))
    with pytest.raises(Invalid, match="key is longer than 1200 bytes"):
        keys.written(DeveloperKey(name="d" * 1190))
    with pytest.raises(Invalid):
        keys.written(DeveloperKey(name="&" * 200))


def test_a_whole_key_has_no_empty_part() -> None:
    assert keys.is_whole(CLOUDLET)
    assert not keys.is_whole(CloudletKey(name="n"))
    assert not keys.is_whole(ClusterInstKey(cloudlet_key=CLOUDLET, developer="d"))
