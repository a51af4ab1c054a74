"""Which nodes a token may speak for: by name, or by a prefix, and in which pool."""

import re

from domain.frozen import Frozen

ANY_NODE = "any"
"""What is said by whoever means all nodes."""

FORM = re.compile(r"[^*@\s/]{1,253}(\*)?(@[^*@\s/]{1,64})?|\*@[^*@\s/]{1,64}")
"""`NODE`, `PREFIX*`, either with `@POOL` behind it, or `*@POOL`."""


class NodeScope(Frozen):
    """What a token says of nodes, read once."""

    names: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        return ANY_NODE in self.names

    def holds(self, node: str, pool: str | None = None) -> bool:
        """Whether a node is meant; without a pool, in whichever pool it is."""
        return self.is_any or any(_matches(each, node, pool) for each in self.names)

    def names_exactly(self, node: str) -> bool:
        """Whether somebody decided about this very node, and not about a prefix."""
        return any(each.partition("@")[0] == node for each in self.names)


def is_scope(text: str) -> bool:
    return text == ANY_NODE or bool(FORM.fullmatch(text))


def covers(own: NodeScope, wanted: str) -> bool:
    """Whether what is wanted is no more than what one has."""
    if own.is_any or wanted in own.names:
        return True
    name, _, pool = wanted.partition("@")
    return wanted != ANY_NODE and any(_covers(each, name, pool) for each in own.names)


def _covers(mine: str, name: str, pool: str) -> bool:
    own_name, _, own_pool = mine.partition("@")
    if own_pool and own_pool != pool:
        return False
    if own_name.endswith("*"):
        return name.removesuffix("*").startswith(own_name[:-1])
    return name == own_name


def _matches(scope: str, node: str, pool: str | None) -> bool:
    name, _, of_pool = scope.partition("@")
    fits = node.startswith(name[:-1]) if name.endswith("*") else node == name
    return fits and (not of_pool or pool is None or pool == of_pool)
