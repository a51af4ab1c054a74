"""What changes would do if they were asked for now.

A change is rehearsed: its own handler takes the request down to the store, which does everything
and commits nothing. So what is told here is what would be done, and so is a refusal."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import Message

from api.asking import Context
from api.door import Service, parser
from api.errors import wrong
from api.ops.outlook import Outlook
from domain.cluster import ClusterPlan
from domain.errors import Invalid
from domain.operation import Kind, Step
from domain.outline import Leg, outline, told
from domain.ownership import warning
from domain.prospect import Gate, Prospect, gates, touched
from domain.storage_plan import StoragePlan
from store.cluster_owners import ClusterOwners
from store.operations import Operations
from store.rehearsal import Accepted, rehearsing


class Foreseen(NamedTuple):
    """What a change would come to."""

    accepted: Accepted
    steps: Sequence[Step]
    machines: Sequence[Prospect]
    duration: timedelta | None
    gates: Sequence[Gate]
    warnings: Sequence[str]
    """What speaks against it, though it would be accepted."""


FOLLOWED = {
    Kind.ADD_NODE_POOL,
    Kind.SCALE_NODE_POOL,
    Kind.DELETE_NODE_POOL,
    Kind.DELETE_CLUSTER,
}
"""Changes that a ClusterInst makes of its cluster itself: of any other there is no way but here."""


class Plans:
    """Rehearses the changes of these services. Whatever methods they have or get, those that would
    write are changes."""

    def __init__(
        self,
        services: Sequence[Service],
        operations: Operations,
        outlook: Outlook,
        owners: ClusterOwners,
        only: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """`only`: of some services, by name, the methods that begin operations; what others change
        is done at once, and has no steps to tell."""
        self._operations = operations
        self._outlook = outlook
        self._owners = owners
        self._methods = {
            f"{service.name}/{method.name}": _taking_bytes(service, method)
            for service in services
            for method in service.described.methods
            if not (method.client_streaming or method.server_streaming)
            and method.name in only.get(service.name, {method.name})
        }

    async def of(self, method: str, request: bytes, context: Context) -> Foreseen | None:
        """What the method would do with this request; None if there is nothing to do. What it
        refuses is raised as it would be."""
        work = self._methods.get(method.removeprefix("/"))
        if work is None:
            raise wrong("method", f"{method[:100]!r} is no method that makes changes")
        with rehearsing() as rehearsal:
            await work(request, context)
        if not rehearsal.reached:
            raise Invalid(
                f"{method} changes nothing, so there is nothing to foresee",
                subject=method,
                reason="NOT_A_CHANGE",
                do="call it: it only asks",
            )
        if (accepted := rehearsal.accepted) is None:
            return None
        legs = outline(accepted.kind, accepted.plan)
        machines = await self._machines(accepted.plan, legs)
        lasts = await self._outlook.foreseen(legs)
        waits = gates(accepted.plan) if isinstance(accepted.plan, ClusterPlan) else ()
        warnings = await self._warnings(accepted)
        return Foreseen(accepted, told(legs, []), machines, lasts, waits, warnings)

    async def _warnings(self, accepted: Accepted) -> Sequence[str]:
        plan = accepted.plan
        if not isinstance(plan, ClusterPlan) or accepted.kind not in FOLLOWED:
            return ()
        said = warning(plan.name, await self._owners.of(plan.uid))
        return (said,) if said else ()

    async def _machines(
        self, plan: ClusterPlan | StoragePlan, legs: tuple[Leg, ...]
    ) -> Sequence[Prospect]:
        """What is done to Ceph touches none of ours."""
        if isinstance(plan, StoragePlan):
            return ()
        return touched(plan, legs, await self._operations.slots(plan.uid))


def _taking_bytes(
    service: Service, described: Any
) -> Callable[[bytes, Context], Awaitable[Message]]:
    parse, work = parser(described), getattr(service.servicer, described.name)

    async def taking(raw: bytes, context: Context) -> Message:
        reply: Message = await work(parse(raw), context)
        return reply

    return taking
