"""Whatever answers in Ceph's place, and in Kubernetes': it is read, or it is refused in words that
the clients know."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.storage_answers import Answers, observed
from domain.storage_home import Listed, home
from tests.domain.ceph import AT, answers
from tests.domain.test_storage_home import deployment, node, rooks

KNOWN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What the clients take for an answer that is none."""

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.floats(),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just(["a"]),
)
RECORDED = answers("fs-failed")
HOUSED = Listed(
    nodes=(node("a"),),
    pods=({"spec": {"nodeName": "a"}},),
    deployments=(deployment("d", "d"),),
    rook=rooks(),
)


def places(it: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way to something in a document."""
    if path:
        yield path
    parts = it.items() if isinstance(it, dict) else enumerate(it) if isinstance(it, list) else ()
    for key, each in parts:
        yield from places(each, (*path, key))


WAYS = list(places(RECORDED.health))
HOME_WAYS = list(places(HOUSED.model_dump()["nodes"][0]))


def put(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A copy with something else in one place."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return changed


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(WAYS), JUNK)
def test_a_strange_health_is_read_and_can_be_kept_or_is_refused(
    path: tuple[Any, ...], junk: Any
) -> None:
    seen = None
    with suppress(*KNOWN):
        seen = observed(RECORDED._replace(health=put(RECORDED.health, path, junk)), AT)
    if seen is not None:
        assert type(seen).model_validate_json(seen.model_dump_json()) == seen


@settings(max_examples=50, deadline=None, derandomize=True)
@given(JUNK, st.sampled_from(Answers._fields))
def test_a_strange_answer_is_read_or_refused(junk: Any, which: str) -> None:
    with suppress(*KNOWN):
        observed(RECORDED._replace(**{which: junk}), AT)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(HOME_WAYS), JUNK)
def test_a_strange_node_is_read_or_refused(path: tuple[Any, ...], junk: Any) -> None:
    strange = put(HOUSED.model_dump()["nodes"][0], path, junk)
    with suppress(*KNOWN):
        home("rook-ceph", HOUSED.model_copy(update={"nodes": (strange,)}))
