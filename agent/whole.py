"""A whole agent: one node, put together from its parts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc.aio
import structlog

from agent.archive import Archive
from agent.bell import Bell
from agent.gate import ControlGate, secret
from agent.images import Images
from agent.instances import Instances, Terms
from agent.ledger import Ledger
from agent.machine import Machine
from agent.membership import Card, Membership
from agent.reporting import Reporting
from agent.runtime import Info, Runtime
from agent.serving import InstanceService, Node
from agent.window import NodeWindow
from api.door import Door, Service
from api.meters import Meters
from api.rkt.public import About, PublicAPI
from api.server import OPTIONS, Server
from api.tls import Certificates, Files
from domain.frozen import Frozen
from domain.placement import Amounts
from protos.gen.agent import instance_pb2, node_pb2
from protos.gen.rkt import api_pb2 as rkt_pb2

CLOSING_SECONDS = 10.0
"""How long what is left may take to be told on the way down."""


LASTING = {name: value for name, value in OPTIONS.items() if "connection_age" not in name}
"""There is no other server to be found, and instances are listened to for as long as they run."""

PAUSE_SECONDS = 1.0
"""Before what went wrong is begun again."""

log = structlog.get_logger()


class Plan(Frozen):
    """What an agent is to be."""

    node: str
    folder: Path
    listen: str = "127.0.0.1:0"
    address: str = ""
    """Where the control plane reaches it. Empty: where it listens."""
    certificate: str = ""
    """PEM. Empty: the node's id is its token."""
    tls: Files | None = None
    """Where that lies, with its key. Without it what is said to the agent is not encrypted."""
    pool: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    has: Amounts = Amounts()
    """0: what the machine has."""
    grace_seconds: float = 10.0
    log_bytes: int = 16 * 10**6
    terms: Terms = Terms()
    version: str = ""
    serves_anybody: bool = False
    """Whether calls are taken without the secret, as those of an original scheduler have to be."""


class Agent:
    def __init__(
        self, plan: Plan, runtime: Runtime, channel: grpc.aio.Channel, *, why: str = ""
    ) -> None:
        self._plan, self.runtime, self._channel, self._why = plan, runtime, channel, why
        plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ledger, self._bell = Ledger(plan.folder / "agent.db"), Bell()
        self._archive = Archive(
            plan.folder / "logs", self.ledger, self._bell.ring, most_bytes=plan.log_bytes
        )
        self.images = Images(plan.node, runtime, self.ledger)
        self.instances = Instances(
            plan.node, runtime, self.ledger, self._archive, self.images, self._bell, plan.terms
        )
        self._secret = "" if plan.serves_anybody else secret(self.ledger)
        self._reporting = Reporting(
            plan.node, self.ledger, self._archive, self._bell, channel, self._secret
        )
        self._machine = Machine(plan.folder, plan.has)
        self._membership: Membership | None = None
        self._server: Server | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._stay: asyncio.Task[None] | None = None
        self.registered = asyncio.Event()
        """Set once the control plane has taken the node in."""

    async def start(self) -> str:
        """Take up what was here, listen, and from then on be a node. The answer is the address."""
        info = await self.runtime.open(self.ledger.remembered("subnet"))
        await self.instances.adopt()
        meters = Meters()
        door = Door(meters, ControlGate(self._secret) if self._secret else None)
        self._server = Server(
            self._services(info),
            meters,
            door=door,
            options=LASTING,
            setting="WINDLASS_AGENT__LISTEN",
            certificates=Certificates(self._plan.tls) if self._plan.tls else None,
        )
        listens = await self._server.start(self._plan.listen)
        card = Card(
            node=self._plan.node,
            certificate=self._plan.certificate or self._plan.node,
            address=self._plan.address or listens,
            pool=self._plan.pool,
            labels=self._plan.labels,
            runtime=info.name,
            encrypted=self._plan.tls is not None,
            secret=self._secret,
        )
        self._membership = Membership(card, self._channel, self._machine)
        works = (self._archive.run, self._report, self.instances.tidy)
        self._beside = [asyncio.create_task(_kept_up(work)) for work in works]
        stay = partial(self._membership.stay, self._is_member)
        self._stay = asyncio.create_task(_kept_up(stay))
        return listens

    async def drain(self) -> None:
        """Stop everything in good order, say so, and be a node no more."""
        if self._membership:
            self._membership.drain()
        await self.instances.drain(self._plan.grace_seconds)
        if self._membership and self._stay:
            self._membership.leave()
            await asyncio.wait([self._stay], timeout=CLOSING_SECONDS)

    async def stop(self) -> None:
        """Go away. What runs, runs on, and is found again. Being away already is success."""
        if self._server is None:
            return
        with suppress(grpc.aio.AioRpcError):
            async with asyncio.timeout(CLOSING_SECONDS):
                while self.registered.is_set() and await self._reporting.tell():
                    pass
        tasks = [*self._beside, *([self._stay] if self._stay else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.instances.leave()
        await self._server.stop(1)
        self._server = None
        await self.runtime.close()
        self.ledger.close()

    async def _report(self) -> None:
        """Once we are known: nothing is taken of strangers."""
        await self.registered.wait()
        await self._reporting.run()

    async def _is_member(self, subnet: str) -> None:
        if subnet and subnet != self.ledger.remembered("subnet"):
            await self.runtime.open(subnet)
            self.ledger.remember("subnet", subnet)
        self.registered.set()

    def _services(self, info: Info) -> Sequence[Service]:
        grace = self._plan.grace_seconds
        own = InstanceService(self.instances, grace_seconds=grace)
        node = Node(self.instances, self.images, info, self._why, grace_seconds=grace)
        window = NodeWindow(self._plan.node, self.ledger, self._archive, self._bell)
        about = About(version=self._plan.version, directory=str(self._plan.folder))
        instance_service = instance_pb2.DESCRIPTOR.services_by_name["InstanceService"]
        return [
            Service(instance_service, own),
            Service(node_pb2.DESCRIPTOR.services_by_name["Node"], node),
            Service(rkt_pb2.DESCRIPTOR.services_by_name["PublicAPI"], PublicAPI(window, about)),
        ]


async def _kept_up(work: Callable[[], Awaitable[None]]) -> None:
    """Have it go on whatever happens to it: a full disk, or a network that is still in use, must
    not leave a node that only seems to be one."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("what an agent does all the time went wrong, and is begun again")
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return
