"""`windlass trace` of an app in a Kubernetes cluster: down to the cluster, and back from it."""

import asyncio
import json

from agent.crm import names
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import IGNORE_CRM
from protos.gen.kaas import api_pb2 as kaas
from tests.api.caller import Caller
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.cli.running import Outcome, in_process

SHOP = "acme/shop/1.0/tele/west/blue"


async def traced(caller: Caller, name: str) -> Outcome:
    words = ("--address", caller.address, "trace", name, "-o", "json")
    return await asyncio.to_thread(in_process, *words)


async def test_an_app_leads_to_its_cluster_and_back(edge: Edge, caller: Caller) -> None:
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateApp", stubs.app())
    await edge("CreateCloudlet", stubs.cloudlet())
    await edge("InjectCloudletInfo", stubs.info())
    await edge("CreateClusterInst", stubs.clusterinst(crm_override=IGNORE_CRM))
    await edge("CreateAppInst", stubs.appinst(crm_override=IGNORE_CRM))
    inside = ClusterInst(key=stubs.clusterinst_key())
    name, plane = names.cluster(inside.key), kaas.ControlPlaneMachineSpec()
    order = kaas.CreateClusterMsg(name=name, control_plane_nodes=plane)
    made_for = (("windlass-owner", names.owner(inside)),)
    await caller.cluster.CreateCluster(order, metadata=made_for)

    down = json.loads((await traced(caller, SHOP)).out)["items"]
    assert [(each["kind"], each["name"]) for each in down] == [
        ("AppInst", SHOP),
        ("ClusterInst", "tele/west/blue/acme"),
        ("cluster", name),
    ]
    assert json.loads((await traced(caller, name)).out)["items"] == down
    assert (await traced(caller, "nothing")).code == 4
