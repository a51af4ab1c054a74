"""The health service: why a cluster is as it is, what is done about it, and machines to shun."""

from datetime import UTC, datetime

from api.asking import Context, asked, refer
from api.launch import Launch
from api.ops import readings
from api.ops.convert import PREFIX
from domain.repairs import Prudence
from domain.why import explain
from protos.gen.ops import health_pb2 as pb
from protos.gen.ops.health_pb2_grpc import HealthServicer
from store.quarantine import Quarantine
from store.reasons import Reasons
from store.repairs import Repairs


class Health(HealthServicer):
    def __init__(
        self,
        repairs: Repairs,
        reasons: Reasons,
        quarantine: Quarantine,
        launch: Launch,
        prudence: Prudence,
    ) -> None:
        self._repairs = repairs
        self._reasons = reasons
        self._quarantine = quarantine
        self._launch = launch
        self._prudence = prudence

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.HealthPolicy:
        name = readings.named("cluster", request.cluster)
        policy = await self._repairs.policy(asked(request).tenant, name)
        return readings.health_policy(name, policy)

    async def SetPolicy(self, request: pb.SetPolicyRequest, context: Context) -> pb.HealthPolicy:
        name, policy = readings.named("cluster", request.cluster), readings.policy(request.policy)
        await self._repairs.set_policy(asked(request).tenant, name, policy)
        return readings.health_policy(name, policy)

    async def Repair(self, request: pb.RepairRequest, context: Context) -> pb.RepairResponse:
        name, nodes = readings.named("cluster", request.cluster), readings.nodes(request.nodes)
        operation = await self._repairs.request(name, nodes, asked(request))
        if operation is None:
            return pb.RepairResponse()
        refer(context, operation.id)
        self._launch.soon(operation)
        return pb.RepairResponse(operation=PREFIX + operation.id)

    async def Why(self, request: pb.WhyRequest, context: Context) -> pb.WhyResponse:
        name = readings.named("cluster", request.cluster)
        facts = await self._reasons.of(asked(request).tenant, name)
        reading = explain(facts, self._prudence, datetime.now(UTC))
        return readings.why(facts.cluster, reading)

    async def Quarantined(
        self, request: pb.QuarantinedRequest, context: Context
    ) -> pb.QuarantinedResponse:
        return pb.QuarantinedResponse(
            machines=map(readings.quarantined, await self._quarantine.all())
        )

    async def Lift(self, request: pb.LiftRequest, context: Context) -> pb.LiftResponse:
        await self._quarantine.lift(readings.named("system_id", request.system_id))
        return pb.LiftResponse()
