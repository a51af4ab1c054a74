"""Whose a cluster is, said before a command changes it."""

from cli.calling import Call
from cli.printing import tame

OWNER_SECONDS = 5.0
"""How long a change waits to be told whose the cluster is."""


async def warn_of_owner(call: Call, name: str) -> None:
    """Say that a cluster belongs to a ClusterInst. The change is asked for all the same, also where
    the server cannot tell: it may be of an older release."""
    import grpc.aio

    from domain.ownership import warning
    from protos.gen.ops.clusters_pb2 import ListClusterOwnersRequest
    from protos.gen.ops.clusters_pb2_grpc import ClustersStub

    stub: ClustersStub = ClustersStub(call.channel)
    asked = ListClusterOwnersRequest(name=name)
    try:
        found = (await stub.ListOwners(asked, timeout=OWNER_SECONDS)).clusters
    except grpc.aio.AioRpcError:
        return
    for each in found:
        if said := warning(each.name, each.owner):
            call.page.err.print(tame(f"warning: {said}"), style="yellow")
