"""What the scheduler says of an order is what its agent reads."""

from agent import convert
from clients.node_agent import _beside
from domain.agents import Order
from domain.instance import InstanceSpec
from domain.placement import Amounts, Demands
from domain.probing import Probe
from protos.gen.agent import instance_pb2 as agent_pb2


def test_what_goes_beside_an_order_arrives_as_it_was_meant() -> None:
    for probe in (None, Probe(tcp=80), Probe(command=("sh", "-c", "true"), retries=1)):
        spec = InstanceSpec(
            id="web-1",
            name="web",
            uri="builtin:web",
            limit=Amounts(cpu=1),
            command=("a  b", "$c"),
            probe=probe,
            demands=Demands(workload="shop"),
        )
        told = {"tenant": "ann", "node": "n1", "address": "x:1", "incarnation": 7, "turn": 1}
        order = Order.model_validate({"instance": "web-1", "spec": spec, **told})
        asked = agent_pb2.Instance(id="web-1", uri=spec.uri)
        read = convert.order(asked, _beside(order))
        assert read.health == probe
        assert (read.incarnation, read.plain) == (7, False)
        assert (read.tenant, read.workload, read.command) == ("ann", "shop", ("a  b", "$c"))
