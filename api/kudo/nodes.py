"""The node service: who offers room, and that they are still there."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from google.protobuf.empty_pb2 import Empty

from api.asking import Context, notes, principal, running
from api.belonging import Belonging
from api.callers import peer
from api.kudo import convert, states
from api.kudo.addresses import judged
from api.kudo.certificates import shown
from api.kudo.leases import Leases
from api.kudo.strays import Strays
from domain.access import Role
from domain.agents import SECRET, Agents, Trust
from domain.errors import DomainError, Forbidden, Invalid
from domain.metadata import ADDRESS, ENCRYPTED, LABELS, POOL, RUNTIME
from domain.node import Candidate, NodePhase, Registered, Said, Welcome
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceServicer
from store.nodes import Nodes

BESIDE = frozenset({ADDRESS, POOL, LABELS, RUNTIME, ENCRYPTED, SECRET})
"""What our own agents say of themselves beside the request."""

UNPROVEN = "nothing proves that the node has its certificate's key: its agent does not speak TLS"


class Admission(NamedTuple):
    """Which nodes are taken in."""

    port: int
    """Where an agent is asked that does not say where."""
    bare_tokens: bool
    local: bool = False
    """Whether agents may be on this machine, as those of `windlass up` are."""


class NodeService(NodeServiceServicer):
    def __init__(
        self,
        nodes: Nodes,
        leases: Leases,
        strays: Strays,
        agents: Agents,
        belonging: Belonging,
        *,
        terms: Admission,
    ) -> None:
        self._nodes = nodes
        self._belonging = belonging
        self._leases = leases
        self._strays = strays
        self._agents = agents
        self._terms = terms

    async def Register(
        self, request: pb.NodeRegisterRequest, context: Context
    ) -> pb.NodeRegisterResponse:
        return convert.registered(await self._registered(request.certificate, context))

    async def Unregister(
        self, request: pb.NodeUnregisterRequest, context: Context
    ) -> pb.NodeUnregisterResponse:
        await self._belonging.check(request.id)
        if not await self._nodes.unregister(request.id):
            said = f"there is no node {request.id}"
            return pb.NodeUnregisterResponse(code=1, description=said)
        await self._leases.rouse(request.id)
        return pb.NodeUnregisterResponse(code=0, description="Bye from the cluster")

    async def Status(
        self, request_iterator: AsyncIterator[pb.NodeStatus], context: Context
    ) -> Empty:
        node, before = "", None
        async for status in request_iterator:
            if node not in ("", status.id):
                raise Invalid(
                    f"this stream is of node {node} and tells of {status.id!r}",
                    subject=node,
                    reason="NODE_STREAM_MIXED",
                    do="open a stream for each node",
                )
            if not node:
                await self._belonging.check(status.id)
            node, told = status.id, (status.status, status.statusDescription)
            limits = status.resource.HasField("limit")
            limit = convert.amounts(status.resource.limit) if limits else None
            used, news = convert.usage(status.resource), (*told, limit)
            if news == before and self._leases.beat(node, used):
                continue
            said = states.said(status.status)
            await self._nodes.hear(node, said, status.statusDescription, limit, used)
            if said is Said.RUNNING and before is None:
                self._strays.soon(node)
            before = news if said is Said.RUNNING else None
            await self._leases.rouse(node)
        return Empty()

    async def _registered(self, certificate: str, context: Context) -> Registered:
        """However it ends is an answer; only what we cannot explain is an error."""
        terms = self._terms
        try:
            id, fingerprint, leaf = shown(certificate, bare_tokens=terms.bare_tokens)
        except Invalid as error:
            return Registered(outcome=Welcome.BAD_CERTIFICATE, says=error.message)
        notes().subject = id
        beside = {
            key: str(value) for key, value in context.invocation_metadata() or () if key in BESIDE
        }
        trust = _trust(leaf, beside)
        if not (trust.certificate or terms.bare_tokens):
            return Registered(outcome=Welcome.BAD_CERTIFICATE, says=UNPROVEN)
        pool = beside.get(POOL) or "default"
        said = beside.get(ADDRESS) or _dialled_back(peer(context), terms.port)
        try:
            await self._belonging.check(id, pool)
            if (there := await self._nodes.find(id)) and there.phase is not NodePhase.GONE:
                await self._belonging.succeed(id, trust)
            who = Candidate(
                id=id,
                fingerprint=fingerprint,
                address=await judged(said, local=terms.local),
                pool=pool,
                labels=convert.labels(beside.get(LABELS, "")),
                runtime=beside.get(RUNTIME, "")[:32],
                registrar=_counted(id),
            )
            await self._agents.reach(id, who.address, trust.certificate)
            registered = await self._nodes.register(who)
        except Forbidden as error:
            return Registered(outcome=Welcome.BAD_CERTIFICATE, says=error.message)
        except DomainError as error:
            return Registered(outcome=Welcome.FAILED, says=error.message)
        if registered.outcome is Welcome.WELCOME:
            # Before it is answered, and so before the node says that it runs and is given work.
            await self._belonging.claim(id, trust)
            await self._leases.rouse(id)
        return registered


def _counted(node: str) -> str:
    """Among whose nodes this one is counted. Empty: it is not, since an administrator has decided
    about this very node, or who asks may change anything."""
    who, scope = principal(), running().session.node_scope
    return "" if who.role is not Role.AGENT or scope.names_exactly(node) else who.name


def _trust(pem: str, beside: Mapping[str, str]) -> Trust:
    """What the agent is known by from now on."""
    encrypted = beside.get(ENCRYPTED) == "true"
    return Trust(secret=beside.get(SECRET, ""), certificate=pem if encrypted else "")


def _dialled_back(peer: str, port: int) -> str:
    """Where the agent of a caller is asked: at the address it calls from. gRPC writes that as
    `ipv4:10.0.0.7:40312` or `ipv6:%5B::1%5D:40312`."""
    found = re.fullmatch(r"ipv[46]:(.+):\d+", unquote(peer))
    return f"{found[1]}:{port}" if found else peer
