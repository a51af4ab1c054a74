"""The services of the scheduler contract, put together, with what they share."""

from typing import NamedTuple

from api.belonging import Belonging
from api.door import Admit, Service
from api.kudo.instances import InstanceService
from api.kudo.leases import Leases
from api.kudo.nodes import Admission, NodeService
from api.kudo.strays import Strays
from api.launch import Launch
from domain import instance
from domain.agents import Agents
from protos.gen.kudo import scheduler_pb2
from store.engine import Database
from store.fleet import Fleet
from store.instances import Instances, tail
from store.nodes import Leases as LeaseTerms
from store.nodes import Nodes
from store.placing import Placing
from store.secrets import Secrets


class Terms(NamedTuple):
    """What an operator decides about this contract."""

    leases: LeaseTerms
    agent_port: int
    bare_tokens: bool
    restart: instance.Restart
    stop_removes: bool
    local: bool = False


class Asked(NamedTuple):
    """How agents are asked, and whose they are."""

    agents: Agents
    belonging: Belonging
    vault: Secrets


class Scheduling:
    """What the scheduler's doors stand on."""

    def __init__(
        self,
        database: Database,
        launch: Launch,
        asked: Asked,
        admit: Admit,
        terms: Terms,
    ) -> None:
        self._launch = launch
        self._asked = asked
        self._terms = terms
        self._tail = tail(database)
        self.nodes = Nodes(database, terms.leases)
        self.instances = Instances(database, self._tail, asked.vault)
        self.placing = Placing(database, Fleet())
        self.leases = Leases(self.nodes, launch, admit, lost=terms.leases.lost)
        self.strays = Strays(self.nodes, asked.agents)

    @property
    def services(self) -> list[Service]:
        """All that is served of `scheduler`."""
        terms = self._terms
        served = (
            NodeService(
                self.nodes,
                self.leases,
                self.strays,
                self._asked.agents,
                self._asked.belonging,
                terms=Admission(terms.agent_port, terms.bare_tokens, terms.local),
            ),
            InstanceService(
                self.instances, self._launch, terms.restart, keeps=not terms.stop_removes
            ),
        )
        described = scheduler_pb2.DESCRIPTOR.services_by_name
        return [Service(described[type(servicer).__name__], servicer) for servicer in served]

    async def close(self) -> None:
        await self.strays.close()
        await self._tail.close()
