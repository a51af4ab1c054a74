"""Which node an instance goes to: cases that clients rely on (K), and laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from domain.placement import (
    Amounts,
    Demands,
    Node,
    Policy,
    Request,
    below,
    judged,
    place,
    ranked,
    refusal,
    shortfalls,
)


def amounts(cpu: int, memory: int = 0, disk: int = 0) -> Amounts:
    return Amounts(cpu=cpu, memory=memory, disk=disk)


def request(cpu: int, memory: int = 0, disk: int = 0, **demands: object) -> Request:
    return Request(
        limit=amounts(cpu, memory, disk), demands=Demands.model_validate(demands, strict=False)
    )


TWO = [Node("a", amounts(20, 20, 20)), Node("b", amounts(50, 50, 50))]


def test_k01_the_one_that_fits_is_chosen() -> None:
    assert place(request(30, 10, 5), TWO) == "b"


def test_k02_nothing_goes_beyond_95_percent_and_the_refusal_says_by_how_much() -> None:
    assert place(request(30, 48, 5), TWO) is None
    said = refusal(judged(request(30, 48, 5), TWO))
    assert said.startswith("not enough resources: b lacks 1 memory (48 wanted; 95% of 50")
    assert "a lacks 11 cpu" in said


def test_k03_without_nodes_even_nothing_finds_no_place() -> None:
    assert place(request(0), []) is None
    assert refusal(judged(request(0), [])) == "no available nodes"


@pytest.mark.parametrize(
    ("reserved", "wanted", "fits"), [(0, 95, True), (0, 96, False), (50, 45, True), (50, 46, False)]
)
@pytest.mark.parametrize("dimension", ["cpu", "memory", "disk"])
def test_k09_the_boundary_itself_fits(
    reserved: int, wanted: int, fits: bool, dimension: str
) -> None:
    node = Node("a", amounts(100, 100, 100), reserved=Amounts(**{dimension: reserved}))
    asked = Request(limit=Amounts(**{dimension: wanted}))
    assert (place(asked, [node]) == "a") is fits


def test_k11_equal_nodes_are_filled_in_turn_and_ties_go_to_the_lower_id() -> None:
    nodes = {id: Node(id, amounts(100, 100, 100)) for id in ("b", "a")}
    went = []
    for _ in range(4):
        chosen = place(request(10, 10, 10), nodes.values())
        assert chosen is not None
        went.append(chosen)
        more = nodes[chosen].reserved + amounts(10, 10, 10)
        nodes[chosen] = replace(nodes[chosen], reserved=more)
    assert went == ["a", "b", "a", "b"]


def test_k12_a_node_that_is_shut_is_never_chosen_and_says_why() -> None:
    shut = Node("a", amounts(100, 100, 100), shut="starting")
    assert place(request(0), [shut]) is None
    assert refusal(judged(request(0), [shut])) == "no available nodes: a is starting"


def test_a_dimension_without_a_limit_is_room_for_nothing_only() -> None:
    node = Node("a", amounts(100))
    assert place(request(1), [node]) == "a"
    assert place(request(1, 1), [node]) is None


def test_binpack_goes_to_the_fullest() -> None:
    empty = Node("a", amounts(100, 100, 100))
    busy = replace(empty, id="b", reserved=amounts(50))
    assert place(request(1), [empty, busy]) == "a"
    assert place(request(1).model_copy(update={"policy": Policy.BINPACK}), [empty, busy]) == "b"


@pytest.mark.parametrize(
    ("constraint", "zone", "fits"),
    [
        ("zone=x", "x", True),
        ("zone=x", "y", False),
        ("zone!=x", "x", False),
        ("zone!=x", "y", True),
        ("rack!=1", "x", True),
        ("rack=", "x", True),
    ],
)
def test_constraints_are_about_labels(constraint: str, zone: str, fits: bool) -> None:
    node = Node("a", amounts(100), labels={"zone": zone})
    assert (place(request(1, constraints=(constraint,)), [node]) == "a") is fits


def test_affinity_outweighs_room_and_spread_outweighs_room() -> None:
    liked = Node("b", amounts(100), reserved=amounts(80), labels={"disk": "ssd", "zone": "y"})
    other = Node("a", amounts(100), labels={"zone": "x"}, copies={"web": 1})
    assert place(request(1, affinity=("disk=ssd",)), [other, liked]) == "b"
    assert place(request(1, workload="web", spread_by="zone"), [other, liked]) == "b"
    assert place(request(1), [other, liked]) == "a"


def test_at_most_so_many_copies_share_a_node() -> None:
    node = Node("a", amounts(100), copies={"web": 2})
    asked = request(1, workload="web", most_per_node=2)
    assert place(asked, [node]) is None
    assert shortfalls(asked, node) == ("has 2 copies of web, of at most 2",)
    assert place(request(1, workload="db", most_per_node=2), [node]) == "a"


def test_pool_ports_and_refusals_keep_nodes_out() -> None:
    node = Node("a", amounts(100), pool="edge", ports=frozenset({80}))
    assert place(request(1, pool="edge"), [node]) == "a"
    assert place(request(1, pool="core"), [node]) is None
    wanting = request(1).model_copy(update={"ports": frozenset({80, 81})})
    assert shortfalls(wanting, node) == ("has host port 80 taken",)
    refused = request(1).model_copy(update={"avoid": frozenset({"a"})})
    assert shortfalls(refused, node) == ("has refused it",)


small = some.integers(0, 120)
rooms = some.builds(amounts, small, small, small)
labels = some.dictionaries(some.sampled_from(["zone", "disk"]), some.sampled_from(["x", "y"]))
nodes = some.builds(
    Node,
    some.sampled_from([f"n{number}" for number in range(8)]),
    rooms,
    rooms,
    some.sampled_from(["default", "edge"]),
    some.sampled_from(["", "", "", "lost"]),
    some.sampled_from([0.95, 1.0, 0.5]),
    labels,
    some.frozensets(some.integers(1, 4)),
    some.dictionaries(some.just("web"), some.integers(0, 3)),
)
fleets = some.lists(nodes, max_size=8, unique_by=lambda node: node.id)
wishes = some.builds(
    Request,
    limit=rooms,
    ports=some.frozensets(some.integers(1, 4), max_size=2),
    policy=some.sampled_from(Policy),
    avoid=some.frozensets(some.sampled_from(["n0", "n1"])),
    demands=some.builds(
        Demands,
        pool=some.sampled_from(["", "edge"]),
        constraints=some.sampled_from([(), ("zone=x",), ("zone!=x",)]),
        affinity=some.sampled_from([(), ("disk=y",)]),
        workload=some.sampled_from(["", "web"]),
        spread_by=some.sampled_from(["", "zone"]),
        most_per_node=some.integers(0, 3),
    ),
)


@given(wishes, fleets)
def test_the_order_nodes_arrive_in_does_not_matter(wanted: Request, fleet: list[Node]) -> None:
    assert list(ranked(wanted, fleet)) == list(ranked(wanted, fleet[::-1]))


@given(wishes, fleets)
def test_what_is_tried_is_what_nothing_speaks_against(wanted: Request, fleet: list[Node]) -> None:
    free = {node.id for node in fleet if not shortfalls(wanted, node)}
    assert set(ranked(wanted, fleet)) == free
    assert {each.node for each in judged(wanted, fleet) if not each.shortfalls} == free


@given(wishes, fleets)
def test_no_placement_fills_a_node_beyond_its_ceiling(wanted: Request, fleet: list[Node]) -> None:
    for node in fleet:
        if node.id in set(ranked(wanted, fleet)):
            for name in ("cpu", "memory", "disk"):
                more = getattr(wanted.limit, name)
                full = below(getattr(node.limit, name), node.ceiling)
                assert not more or more + getattr(node.reserved, name) <= full


@given(wishes, fleets)
def test_whoever_wants_less_finds_a_place_wherever_it_did(
    wanted: Request, fleet: list[Node]
) -> None:
    less = wanted.model_copy(update={"limit": amounts(0)})
    assert set(ranked(wanted, fleet)) <= set(ranked(less, fleet))
