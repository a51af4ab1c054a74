from collections.abc import Callable, Sequence
from typing import Any

import pytest

from domain.cluster import Limits, PoolOrder
from domain.errors import Invalid
from domain.machine import Label, Role, Slot, SlotPhase, SlotState
from domain.pools import RANK, PoolSize, check_added, check_dropped, check_scaled, victims
from domain.releases import Release
from domain.seen import NodeSeen, Readiness

LIMITS = Limits(machines_per_pool=10, pools=3)


def state(name: str, phase: SlotPhase, node: NodeSeen | None = None) -> SlotState:
    slot = Slot(
        cluster_uid="uid",
        cluster="hello",
        name=name,
        role=Role.WORKER,
        pool="w",
        release=Release(version="1.32.1", series="jammy"),
        public_key="ssh-ed25519 AAAA",
    )
    return SlotState(slot=slot, phase=phase, node=node)


def test_every_phase_has_a_rank() -> None:
    assert RANK.keys() == set(SlotPhase)


def test_what_is_worth_least_goes_first_and_the_newest_of_equals() -> None:
    slots = [
        state("old", SlotPhase.HEALTHY),
        state("broken", SlotPhase.FAILED),
        state("new", SlotPhase.HEALTHY),
        state("going", SlotPhase.DRAINING),
        state("unready", SlotPhase.JOINED),
        state("empty", SlotPhase.RELEASED),
    ]
    order = ["empty", "going", "broken", "unready", "new", "old"]
    for count in range(len(slots) + 1):
        assert [each.slot.name for each in victims(slots, count)] == order[:count]
    assert victims(slots, -1) == []


def test_a_node_that_somebody_marked_goes_before_others_that_work() -> None:
    marked = NodeSeen(name="marked", readiness=Readiness.READY, unwanted=True)
    slots = [
        state("marked", SlotPhase.HEALTHY, marked),
        state("unready", SlotPhase.JOINED),
        state("new", SlotPhase.HEALTHY, NodeSeen(name="new", readiness=Readiness.READY)),
    ]
    assert [each.slot.name for each in victims(slots, 2)] == ["unready", "marked"]


def pool(name: str = "w", count: int = 1, **more: Any) -> PoolOrder:
    return PoolOrder(name=name, count=count, **more)


def size(name: str = "w", count: int = 1) -> PoolSize:
    return PoolSize(name=name, count=count)


@pytest.mark.parametrize(
    ("check", "asked", "fields"),
    [
        (check_added, [], ["worker_node_pools"]),
        (check_added, [pool("W")], ["worker_node_pools[0].name"]),
        (check_added, [pool("control-plane")], ["worker_node_pools[0].name"]),
        (check_added, [pool("a" * 58)], ["worker_node_pools[0].name"]),
        (check_added, [pool(count=-1)], ["worker_node_pools[0].count"]),
        (check_added, [pool(count=11)], ["worker_node_pools[0].count"]),
        (check_added, [pool("a"), pool("a")], ["worker_node_pools[1].name"]),
        (check_added, [pool(instance_type="ä")], ["worker_node_pools[0].instanceType"]),
        (
            check_added,
            [pool(labels=(Label(name="node-pool", value=""),))],
            ["worker_node_pools[0].labels[0].name"],
        ),
        (check_added, [pool(name) for name in "abcd"], ["worker_node_pools"]),
        (check_scaled, [], ["node_pools"]),
        (check_scaled, [size("control-plane", 3)], ["node_pools[0].name"]),
        (check_scaled, [size("")], ["node_pools[0].name"]),
        (
            check_scaled,
            [size("a", -1), size("b", 11)],
            ["node_pools[0].count", "node_pools[1].count"],
        ),
        (check_scaled, [size("a"), size("a", 2)], ["node_pools[1].name"]),
        (check_scaled, [size(name) for name in "abcd"], ["node_pools"]),
        (check_dropped, [], ["node_pool_names"]),
        (check_dropped, ["control-plane"], ["node_pool_names[0]"]),
        (check_dropped, ["w", "\0"], ["node_pool_names[1]"]),
        (check_dropped, list("abcd"), ["node_pool_names"]),
    ],
)
def test_everything_wrong_with_a_request_is_named_at_once(
    check: Callable[[str, Sequence[Any], Limits], None], asked: list[Any], fields: list[str]
) -> None:
    with pytest.raises(Invalid) as refused:
        check("hello", asked, LIMITS)
    assert [violation.field for violation in refused.value.violations] == fields


def test_what_is_within_bounds_is_accepted() -> None:
    check_added("hello", [pool("a", 0), pool("b", 10)], LIMITS)
    check_scaled("hello", [size("a", 0), size("b", 10)], LIMITS)
    check_dropped("hello", ["a", "b"], LIMITS)
