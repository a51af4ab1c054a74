"""The services that tell of what runs on nodes, put together."""

from typing import NamedTuple

from api.belonging import Belonging
from api.door import Service
from api.launch import Launch
from api.ops.instances import Instances
from api.ops.nodes import Nodes
from domain.agents import Agents
from domain.instance import Restart
from protos.gen.ops import instances_pb2, nodes_pb2
from store import instances as stores
from store import nodes
from store.placing import Placing


class Terms(NamedTuple):
    """What an operator decides about instances whose creator says nothing of it."""

    restart: Restart
    keeps: bool


def services(
    instances: stores.Instances,
    fleet: nodes.Nodes,
    placing: Placing,
    agents: Agents,
    launch: Launch,
    belonging: Belonging,
    terms: Terms,
) -> list[Service]:
    orders = Instances(instances, fleet, placing, agents, launch, terms.restart, keeps=terms.keeps)
    return [
        Service(nodes_pb2.DESCRIPTOR.services_by_name["Nodes"], Nodes(fleet, launch, belonging)),
        Service(instances_pb2.DESCRIPTOR.services_by_name["Instances"], orders),
    ]
