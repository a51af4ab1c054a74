"""What users do to a cluster that stands, drawn before it is done.

A new kind of change is a function more and a line in `KINDS`."""

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from tests.reliability.users import Answer, Users

Pools = Mapping[str, int]
"""How many workers each pool of a cluster is to have."""

LARGEST_POOL = 3
MOST_WORKERS = 4


Asking = Callable[[Users], Awaitable[Answer]]


class Change(NamedTuple):
    """One thing that is asked for, and what is wanted of the pools from then on."""

    what: str
    ask: Asking
    wanted: Pools
    again: Asking
    """What makes good whatever was left of it undone; it may find that there is nothing to do."""


def scale(cluster: str, pools: Pools, draw: random.Random) -> Change | None:
    if not pools:
        return None
    name = draw.choice(sorted(pools))
    room = MOST_WORKERS - sum(pools.values()) + pools[name]
    sizes = set(range(min(LARGEST_POOL, room) + 1)) - {pools[name]}
    if not sizes:
        return None
    return resized(cluster, {**pools, name: draw.choice(sorted(sizes))}, name)


def resized(cluster: str, pools: Pools, name: str) -> Change:
    """One pool brought to the size that is wanted of it."""
    size = pools[name]

    async def ask(users: Users) -> Answer:
        return await users.scale(cluster, name, size)

    return Change(f"scale {cluster} {name}={size}", ask, pools, again=ask)


def add(cluster: str, pools: Pools, draw: random.Random) -> Change | None:
    room = MOST_WORKERS - sum(pools.values())
    if "x" in pools or not room:
        return None
    size = draw.randint(1, min(2, room))
    wanted = {**pools, "x": size}

    async def ask(users: Users) -> Answer:
        return await users.add_pool(cluster, "x", size)

    return Change(f"add {cluster} x={size}", ask, wanted, resized(cluster, wanted, "x").ask)


def drop(cluster: str, pools: Pools, draw: random.Random) -> Change | None:
    if not pools:
        return None
    name = draw.choice(sorted(pools))
    left = {other: size for other, size in pools.items() if other != name}

    async def ask(users: Users) -> Answer:
        return await users.drop_pool(cluster, name)

    async def again(users: Users) -> Answer:
        return await users.unless("NOT_FOUND", ask(users))

    return Change(f"drop {cluster} {name}", ask, left, again)


def upgrade(cluster: str, pools: Pools, version: str) -> Change:
    """The whole cluster brought to another version. It is not drawn: each version has its turn."""

    async def ask(users: Users) -> Answer:
        return await users.upgrade(cluster, version)

    async def again(users: Users) -> Answer:
        return await users.unless("FAILED_PRECONDITION ALREADY_AT_VERSION", ask(users))

    return Change(f"upgrade {cluster} {version}", ask, pools, again)


KINDS = (scale, scale, add, drop)
"""Each as often as it stands here, among those that are possible."""


def drawn(cluster: str, pools: Pools, count: int, draw: random.Random) -> list[Change]:
    """So many changes in a row, each of what the one before is to leave."""
    changes: list[Change] = []
    while len(changes) < count:
        if change := draw.choice(KINDS)(cluster, pools, draw):
            changes.append(change)
            pools = change.wanted
    return changes
