"""The names of nodes, which the contract of clusters does not tell with their machines."""

from collections.abc import Sequence

import grpc
import grpc.aio

from cli.calling import READ_SECONDS, Call
from protos.gen.ops import clusters_pb2 as pb
from protos.gen.ops.clusters_pb2_grpc import ClustersStub


async def node_names(call: Call, cluster: str, machines: Sequence[str]) -> list[str]:
    """What Kubernetes calls the nodes on these machines, in this order; "" where it is not known.

    Places without a machine look alike, so they take the names that are left as they come. Names
    are an addition: a server that does not show clusters live is no reason to complain."""
    try:
        view = await first_view(call, cluster)
    except grpc.aio.AioRpcError:
        return [""] * len(machines)
    standing = set(filter(None, machines))
    by_machine = {node.machine_id: node.name for node in view.nodes if node.machine_id in standing}
    left = [node.name for node in view.nodes if node.name not in by_machine.values()]
    if len(left) != sum(not machine for machine in machines):  # it changed between two answers
        left = [""] * len(machines)
    rest = iter(left)
    return [by_machine.get(machine, "") if machine else next(rest) for machine in machines]


async def first_view(call: Call, cluster: str) -> pb.ClusterView:
    request = pb.WatchClusterRequest(name=cluster)
    stream = ClustersStub(call.channel).Watch(request, timeout=READ_SECONDS)
    try:
        async for view in stream:
            return view
    finally:
        stream.cancel()
    return pb.ClusterView()
