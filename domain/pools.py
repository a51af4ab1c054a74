"""Pools of a cluster that stands: what may be asked of them, and which nodes go first."""

from collections.abc import Iterable, Sequence

from domain import naming
from domain.cluster import Limits, PoolOrder, check_pool
from domain.errors import Conflict, Invalid, Violation
from domain.frozen import Frozen
from domain.machine import SlotPhase, SlotState


class PoolSize(Frozen):
    """How many machines a pool is to have."""

    name: str
    count: int


RANK: dict[SlotPhase, int] = {
    SlotPhase.RELEASED: 0,
    SlotPhase.PLANNED: 0,
    SlotPhase.RELEASING: 1,
    SlotPhase.DRAINING: 1,
    SlotPhase.FAILED: 2,
    SlotPhase.ALLOCATED: 3,
    SlotPhase.DEPLOYING: 3,
    SlotPhase.DEPLOYED: 3,
    SlotPhase.LOST: 4,
    SlotPhase.JOINED: 4,
    SlotPhase.HEALTHY: 5,
}
"""Who goes first: empty places, then what is going already, what failed, what is not Ready."""

EMPTY = frozenset({SlotPhase.PLANNED, SlotPhase.RELEASED})
"""The phases in which nothing is in a slot."""

ILL = frozenset({SlotPhase.JOINED, SlotPhase.LOST})
"""The phases of a node that is there and not Ready: no change of pools mends it, but a repair."""

WORKING = frozenset({SlotPhase.HEALTHY, SlotPhase.JOINED, SlotPhase.LOST, SlotPhase.DRAINING})
"""The phases in which a node may run pods, or may have run some before it was lost."""


def victims(slots: Sequence[SlotState], count: int) -> list[SlotState]:
    """So many of a pool's slots, given in the order they were planned in: those that are worth
    least, among equals those that somebody marked as unwanted, and among these the newest."""

    def worth(numbered: tuple[int, SlotState]) -> tuple[int, bool, int]:
        number, state = numbered
        is_wanted = state.node is None or not state.node.unwanted
        return RANK[state.phase], is_wanted, -number

    return [slot for _, slot in sorted(enumerate(slots), key=worth)[: max(count, 0)]]


def without_control_plane(cluster: str) -> Conflict:
    """Nodes join and leave through a control plane: without one that is Ready none does."""
    return Conflict(
        f"no control plane of cluster {cluster} is Ready, and nodes join and leave through one",
        subject=cluster,
        reason="NO_READY_CONTROL_PLANE",
        do=f"windlass cluster repair {cluster}; windlass cluster why {cluster} shows what is wrong",
    )


def check_added(cluster: str, pools: Sequence[PoolOrder], limits: Limits) -> None:
    """Refuse pools that no cluster could be given, with everything that is wrong with them."""
    field = "worker_node_pools"
    wrong = [*_check_number(field, len(pools), limits)]
    for index, pool in enumerate(pools[: limits.pools]):
        wrong += check_pool(f"{field}[{index}]", pool, limits)
    _refuse(cluster, [*wrong, *_check_twice(field, [pool.name for pool in pools[: limits.pools]])])


def check_scaled(cluster: str, sizes: Sequence[PoolSize], limits: Limits) -> None:
    """Refuse sizes that no pool could have, with everything that is wrong with them."""
    field = "node_pools"
    wrong = [*_check_number(field, len(sizes), limits)]
    for index, size in enumerate(sizes[: limits.pools]):
        at = f"{field}[{index}]"
        wrong += _check_name(f"{at}.name", size.name)
        if not 0 <= size.count <= limits.machines_per_pool:
            description = f"{size.count} is not between 0 and {limits.machines_per_pool}"
            wrong.append(Violation(field=f"{at}.count", description=description))
    _refuse(cluster, [*wrong, *_check_twice(field, [size.name for size in sizes[: limits.pools]])])


def check_dropped(cluster: str, names: Sequence[str], limits: Limits) -> None:
    """Refuse names that no pool can have."""
    field = "node_pool_names"
    wrong = [*_check_number(field, len(names), limits)]
    for index, name in enumerate(names[: limits.pools]):
        wrong += _check_name(f"{field}[{index}]", name)
    _refuse(cluster, wrong)


def _check_number(field: str, count: int, limits: Limits) -> Iterable[Violation]:
    if not count:
        yield Violation(field=field, description="at least one is required")
    if count > limits.pools:
        yield Violation(field=field, description=f"{count} pools, at most {limits.pools}")


def _check_name(field: str, name: str) -> Iterable[Violation]:
    if name == naming.CONTROL_PLANE:
        yield Violation(field=field, description=f"{name!r} is the control plane and no pool")
    elif not naming.is_dns_label(name, naming.POOL_NAME_LENGTH):
        yield Violation(field=field, description=f"{name[:64]!r} cannot be the name of a pool")


def _check_twice(field: str, names: Sequence[str]) -> Iterable[Violation]:
    for index, name in enumerate(names):
        if name in names[:index]:
            at = f"{field}[{index}].name"
            yield Violation(field=at, description=f"{name[:64]!r} is asked for twice")


def _refuse(cluster: str, wrong: Sequence[Violation]) -> None:
    if wrong:
        first = wrong[0]
        message = f"{first.field}: {first.description}"
        raise Invalid(message, subject=cluster, violations=wrong)
