"""What is written of instances and of the nodes that carry them, beside what really runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import select

from domain.instance import OVER, Phase
from domain.node import NodePhase
from store.engine import Database
from store.node_rows import HostPortRow, InstanceRow, NodeRow, PlacementRow
from tests.reliability.fleet import Running


class Life(NamedTuple):
    id: str
    phase: Phase
    node: str = ""
    closed: bool = False


class Place(NamedTuple):
    """What an instance has of a node."""

    instance: str
    node: str
    cpu: int
    left: bool = False


class Roster(NamedTuple):
    lives: list[Life]
    places: list[Place]
    nodes: dict[str, NodePhase]
    taken: dict[str, int]
    """Thousandths of cores, by node."""
    ports: int = 0

    @property
    def living(self) -> list[Life]:
        return [life for life in self.lives if life.phase not in OVER]

    def running_elsewhere(self, node: str) -> set[str]:
        lives = (life for life in self.living if life.phase is Phase.RUNNING)
        return {life.id for life in lives if life.node != node}


async def read(database: Database) -> Roster:
    async with database.session(writes=False) as session:
        nodes = list(await session.scalars(select(NodeRow)))
        placed = await session.scalars(select(PlacementRow))
        ports = list(await session.scalars(select(HostPortRow.port)))
        return Roster(
            lives=[
                Life(row.id, Phase(row.phase), row.node, row.closed)
                for row in await session.scalars(select(InstanceRow))
            ],
            places=[Place(row.instance, row.node, row.cpu, row.left) for row in placed],
            nodes={row.id: NodePhase(row.phase) for row in nodes},
            taken={row.id: row.taken_cpu for row in nodes},
            ports=len(ports),
        )


def contradictions(roster: Roster, running: Sequence[Running]) -> list[str]:
    """Everything that is not as it has to be once nothing is under way: who is RUNNING runs once,
    where it is said to; nobody else runs; and what is reserved is what those need who live."""
    return [*_of_lives(roster, running), *_of_places(roster)]


def _of_lives(roster: Roster, running: Sequence[Running]) -> Iterator[str]:
    there = Counter((one.instance, one.node) for one in running)
    wanted: Counter[tuple[str, str]] = Counter()
    for life in roster.living:
        if life.phase is Phase.RUNNING:
            wanted[life.id, life.node] += 1
        elif life.phase is not Phase.STOPPED:
            yield f"{life.id} is {life.phase} and not at rest"
    yield from (f"{id} does not run on {node}" for id, node in sorted(wanted - there))
    yield from (f"{id} runs on {node} and should not" for id, node in sorted(there - wanted))
    unclosed = sum(not life.closed for life in roster.lives if life.phase in OVER)
    if unclosed:
        yield f"{unclosed} instances are over and not closed"


def _of_places(roster: Roster) -> Iterator[str]:
    places = {(place.instance, place.node) for place in roster.places if not place.left}
    lives = {(life.id, life.node) for life in roster.living if life.node}
    yield from (f"{id} has nothing of {node}" for id, node in sorted(lives - places))
    yield from (f"{id} holds a place on {node} for nothing" for id, node in sorted(places - lives))
    left = sorted((place.instance, place.node) for place in roster.places if place.left)
    yield from (f"{id} has left a copy on {node}" for id, node in left)
    for node, taken in sorted(roster.taken.items()):
        held = sum(each.cpu for each in roster.places if each.node == node and not each.left)
        if taken != held:
            yield f"{taken} of {node} is taken, and its places are of {held}"
    if roster.ports and not roster.living:
        yield f"{roster.ports} ports of hosts are taken by nobody"
