"""Placement: which node an instance goes to, and why not to any other.

Pure, over nodes as they are at one moment. Reservations count and usage does not: what an instance
may take is taken, whether it uses it or not. A node is never filled beyond its ceiling, and what is
decided here holds only once it is reserved: the store compares again when it writes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop

from domain.frozen import Frozen

CEILING = 0.95
"""So much of a node may be reserved, unless its pool says otherwise."""

DIMENSIONS = ("cpu", "memory", "disk")


class Amounts(Frozen):
    """How much of a node: thousandths of a core, MB of 10^6 bytes, GB of 10^9 bytes."""

    cpu: int = 0
    memory: int = 0
    disk: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            cpu=self.cpu + other.cpu,
            memory=self.memory + other.memory,
            disk=self.disk + other.disk,
        )


class Policy(StrEnum):
    """Where to go among the nodes that fit."""

    SPREAD = "spread"
    """To the emptiest."""
    BINPACK = "binpack"
    """To the fullest, so that whole nodes stay free."""


class Demands(Frozen):
    """What a node has to be, beyond having room."""

    pool: str = ""
    """Empty: of any pool."""
    constraints: tuple[str, ...] = ()
    """Labels that it must have: `KEY=VALUE`, or must not have: `KEY!=VALUE`."""
    affinity: tuple[str, ...] = ()
    """Labels that speak for it, as in constraints; a node with more of them goes first."""
    workload: str = ""
    """What it is a copy of; empty: of nothing."""
    spread_by: str = ""
    """A label: copies of the workload go where its value has the fewest of them."""
    most_per_node: int = 0
    """So many copies of the workload may share a node. 0: any number."""


class Request(Frozen):
    """What is to be placed."""

    instance: str = ""
    """Whose copy it is: older ones of it give way."""
    limit: Amounts
    ports: frozenset[int] = frozenset()
    """On the host."""
    ip: str = ""
    demands: Demands = Demands()
    policy: Policy = Policy.SPREAD
    avoid: frozenset[str] = frozenset()
    """Nodes that have refused it already."""

    @property
    def is_choosy(self) -> bool:
        """Whether it minds more than how much room there is."""
        demands = self.demands
        return bool(
            self.avoid
            or self.ports
            or demands.pool
            or demands.constraints
            or demands.most_per_node
            or demands.spread_by
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it is at one moment. Thousands are looked at for one placement, so this is no model
    that checks itself, and what is asked of each of them is computed once."""

    id: str
    limit: Amounts
    reserved: Amounts = field(default_factory=Amounts)
    pool: str = "default"
    shut: str = ""
    """Why nothing may be placed there, in a few words. Empty: it may."""
    ceiling: float = CEILING
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()
    """On the host, taken."""
    copies: Mapping[str, int] = field(default_factory=dict)
    """How many of each workload are there."""
    free_cpu: int = field(init=False)
    free_memory: int = field(init=False)
    free_disk: int = field(init=False)
    share_of_cpu: float = field(init=False)
    """What one more takes of the whole, as every share counted as a third."""
    share_of_memory: float = field(init=False)
    share_of_disk: float = field(init=False)
    load: float = field(init=False)
    """What is taken of the whole."""

    def __post_init__(self) -> None:
        load = 0.0
        for name in DIMENSIONS:
            limit, taken = getattr(self.limit, name), getattr(self.reserved, name)
            share = 1 / (3 * limit) if limit else 0.0
            load += taken * share
            object.__setattr__(self, f"free_{name}", below(limit, self.ceiling) - taken)
            object.__setattr__(self, f"share_of_{name}", share)
        object.__setattr__(self, "load", load)


def below(limit: int, ceiling: float) -> int:
    """How much of a limit may be taken. In whole numbers, so that 95 of 100 is 95."""
    return limit * round(ceiling * 10_000) // 10_000


class Verdict(Frozen):
    """What a node is to a request."""

    node: str
    shortfalls: tuple[str, ...] = ()
    """What keeps it out, each with by how much. Empty: it fits."""


NOTHING = -(2**63)
"""Whoever wants none of something is content with any node, however overcommitted it is."""


def place(request: Request, nodes: Iterable[Node]) -> str | None:
    """The node to go to, or None. Ties go to the lowest id."""
    return next(ranked(request, nodes), None)


def ranked(request: Request, nodes: Iterable[Node]) -> Iterator[str]:
    """Those that fit, the best first: they are tried in this order."""
    wanted = request.limit
    cpu, memory, disk = wanted.cpu or NOTHING, wanted.memory or NOTHING, wanted.disk or NOTHING
    nodes = nodes if isinstance(nodes, Sequence) else list(nodes)
    fitting = [
        node
        for node in nodes
        if node.free_cpu >= cpu
        and node.free_memory >= memory
        and node.free_disk >= disk
        and not node.shut
    ]
    if request.is_choosy:
        fitting = [node for node in fitting if next(_objections(request, node), None) is None]
    heap = list(_costs(request, fitting, _crowd(request.demands, nodes)))
    heapify(heap)  # mostly the first is wanted and no other
    while heap:
        yield heappop(heap)[1]


def _costs(
    request: Request, nodes: Iterable[Node], crowd: Mapping[str, int]
) -> Iterable[tuple[float, str]]:
    """What speaks against each node, the less the better, and its id. What is liked weighs more
    than how few copies are near, and that more than how full it would be, which is below 1."""
    cpu, memory, disk = request.limit.cpu, request.limit.memory, request.limit.disk
    sign = -1 if request.policy is Policy.BINPACK else 1
    costs = [
        (
            sign
            * (
                node.load
                + cpu * node.share_of_cpu
                + memory * node.share_of_memory
                + disk * node.share_of_disk
            ),
            node.id,
        )
        for node in nodes
    ]
    demands = request.demands
    if not (demands.affinity or demands.spread_by):
        return costs
    return [
        (
            cost
            + 10 * crowd.get(node.labels.get(demands.spread_by, ""), 0)
            - 1_000_000 * sum(matches(each, node.labels) for each in demands.affinity),
            id,
        )
        for (cost, id), node in zip(costs, nodes, strict=True)
    ]


def judged(request: Request, nodes: Iterable[Node]) -> list[Verdict]:
    """What every node is to the request, those that fit first and in the order in which they are
    tried."""
    nodes = list(nodes)
    fitting = {id: place for place, id in enumerate(ranked(request, nodes))}
    verdicts = [Verdict(node=node.id, shortfalls=shortfalls(request, node)) for node in nodes]
    last = len(nodes)
    return sorted(verdicts, key=lambda each: (fitting.get(each.node, last), each.node))


def refusal(verdicts: Sequence[Verdict]) -> str:
    """Why there is no place, in a sentence: for each reason how many nodes it keeps out, and by how
    much the nearest of them falls short."""
    if not verdicts:
        return "no available nodes"
    if all(verdict.shortfalls and verdict.shortfalls[0].startswith("is ") for verdict in verdicts):
        return f"no available nodes: {_nearest(verdicts)}"
    return f"not enough resources: {_nearest(verdicts)}"


NAMED = 5
"""So many nodes are named in a refusal."""


def _nearest(verdicts: Sequence[Verdict]) -> str:
    nearest = sorted(verdicts, key=lambda verdict: (len(verdict.shortfalls), verdict.node))
    named = [f"{each.node} {', '.join(each.shortfalls)}" for each in nearest[:NAMED]]
    if len(nearest) > NAMED:
        named.append(f"and {len(nearest) - NAMED} more")
    return "; ".join(named)


def shortfalls(request: Request, node: Node) -> tuple[str, ...]:
    """What keeps the node out. The first is whether anything may go there at all."""
    return (*_closed(node), *_objections(request, node), *_lacks(request, node))


def _closed(node: Node) -> Iterator[str]:
    if node.shut:
        yield f"is {node.shut}"


def _objections(request: Request, node: Node) -> Iterator[str]:
    """What keeps the node out though there may be room."""
    demands = request.demands
    if node.id in request.avoid:
        yield "has refused it"
    if demands.pool and demands.pool != node.pool:
        yield f"is of the pool {node.pool}, not {demands.pool}"
    for constraint in demands.constraints:
        if not matches(constraint, node.labels):
            yield f"does not have {constraint}"
    if clash := sorted(request.ports & node.ports):
        yield f"has host port {', '.join(map(str, clash))} taken"
    copies = node.copies.get(demands.workload, 0) if demands.workload else 0
    if demands.most_per_node and copies >= demands.most_per_node:
        yield f"has {copies} copies of {demands.workload}, of at most {demands.most_per_node}"


def _lacks(request: Request, node: Node) -> Iterator[str]:
    for name in DIMENSIONS:
        wanted, free = getattr(request.limit, name), getattr(node, f"free_{name}")
        if wanted > max(free, 0):
            limit, taken = getattr(node.limit, name), getattr(node.reserved, name)
            most = f"{node.ceiling:.0%} of {limit} may be taken and {taken} is"
            yield f"lacks {wanted - free} {name} ({wanted} wanted; {most})"


def matches(constraint: str, labels: Mapping[str, str]) -> bool:
    """Whether labels are as a constraint wants them. A label that is not there is empty."""
    key, _, value = constraint.partition("=")
    if key.endswith("!"):
        return labels.get(key[:-1], "") != value
    return labels.get(key, "") == value


def _crowd(demands: Demands, nodes: Iterable[Node]) -> dict[str, int]:
    """How many copies of the workload there are for each value of the label they spread by."""
    crowd: dict[str, int] = {}
    if demands.spread_by and demands.workload:
        for node in nodes:
            value = node.labels.get(demands.spread_by, "")
            crowd[value] = crowd.get(value, 0) + node.copies.get(demands.workload, 0)
    return crowd
