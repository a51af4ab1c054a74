from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import (
    NEXT,
    ClusterOrder,
    Limits,
    Phase,
    PoolOrder,
    advance,
    check,
    slots_of,
)
from domain.errors import Conflict, Invalid
from domain.machine import Label, Role
from domain.releases import CATALOGUE

FORBIDDEN = [(a, b) for a, b in product(Phase, Phase) if a is not b and b not in NEXT[a]]
ALLOWED = [(a, b) for a in Phase for b in (a, *sorted(NEXT[a]))]


@pytest.mark.parametrize(("now", "to"), FORBIDDEN)
def test_refuses_every_other_move(now: Phase, to: Phase) -> None:
    with pytest.raises(Conflict, match=f"cluster blue is {now} and cannot become {to}"):
        advance("blue", now, to)


@pytest.mark.parametrize(("now", "to"), ALLOWED)
def test_allows_the_moves_there_are_and_staying_put(now: Phase, to: Phase) -> None:
    assert advance("blue", now, to) is to


def test_every_phase_says_where_it_leads_and_can_be_deleted_until_it_is_gone() -> None:
    assert set(NEXT) == set(Phase)
    assert not NEXT[Phase.GONE]
    assert NEXT[Phase.STOPPING] == {Phase.GONE}
    for phase in set(Phase) - {Phase.STOPPING, Phase.GONE}:
        assert Phase.STOPPING in NEXT[phase]


def _order(**changed: object) -> ClusterOrder:
    order = ClusterOrder(
        name="hello",
        control_plane=PoolOrder(name="control-plane", count=3),
        pools=(_pool("general", 2), _pool("gpu", 0, instance_type="gpu_1")),
    )
    return order.model_copy(update=changed)


def _pool(name: str, count: int = 1, **more: object) -> PoolOrder:
    return PoolOrder.model_validate({"name": name, "count": count, **more})


def _wrong(order: ClusterOrder, limits: Limits | None = None) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        check(order, CATALOGUE, limits or Limits())
    found = {wrong.field: wrong.description for wrong in refused.value.violations}
    first = refused.value.violations[0]
    assert refused.value.message == f"{first.field}: {first.description}"
    assert refused.value.subject == order.name
    return found


def test_an_order_without_fault_is_given_its_release() -> None:
    assert check(_order(), CATALOGUE, Limits()) == CATALOGUE.choose("")
    assert check(_order(version="v1.31.4"), CATALOGUE, Limits()).version == "1.31.4"
    assert check(_order(pools=()), CATALOGUE, Limits())


def test_everything_wrong_is_reported_at_once() -> None:
    order = _order(
        name="Hello!",
        version="0.9.0",
        control_plane=_pool("control-plane", 2, instance_type="no tag"),
        pools=(_pool("control-plane", -1), _pool("", 501), _pool("", 1)),
    )
    assert sorted(_wrong(order)) == [
        "control_plane_nodes.count",
        "control_plane_nodes.instanceType",
        "k8s_version",
        "name",
        "worker_node_pools[0].count",
        "worker_node_pools[0].name",
        "worker_node_pools[1].count",
        "worker_node_pools[1].name",
        "worker_node_pools[2].name",
    ]


@pytest.mark.parametrize("name", ["", "-a", "A", "a.b", "a" * 64])
def test_a_cluster_is_called_by_a_dns_label(name: str) -> None:
    assert "1 to 63 lower-case letters" in _wrong(_order(name=name))["name"]


@pytest.mark.parametrize("version", ["latest", "1.31", "1.2.3"])
def test_a_version_is_one_of_the_catalogue(version: str) -> None:
    assert list(_wrong(_order(version=version))) == ["k8s_version"]


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 6, 7])
def test_a_control_plane_has_an_odd_number_of_members(count: int) -> None:
    wrong = _wrong(_order(control_plane=_pool("control-plane", count)))
    assert wrong == {
        "control_plane_nodes.count": (
            f"{count} is not one of 1, 3, 5: etcd wants an odd number of members"
        )
    }


@pytest.mark.parametrize("count", [-1, 501])
def test_a_pool_has_a_most_and_a_least(count: int) -> None:
    wrong = _wrong(_order(pools=(_pool("a", count),)))
    assert wrong == {"worker_node_pools[0].count": f"{count} is not between 0 and 500"}


def test_a_pool_is_called_by_a_shorter_label_and_not_like_the_control_plane() -> None:
    wrong = _wrong(_order(pools=(_pool("a" * 58), _pool("control-plane"))))
    assert "1 to 57 lower-case letters" in wrong["worker_node_pools[0].name"]
    assert "is reserved" in wrong["worker_node_pools[1].name"]


def test_no_two_pools_share_a_name() -> None:
    wrong = _wrong(_order(pools=(_pool("a"), _pool("b"), _pool("a"))))
    assert wrong == {"worker_node_pools[2].name": "'a' is asked for twice"}


def test_a_cluster_has_only_so_many_machines_its_control_plane_included() -> None:
    order = _order(pools=(_pool("a", 2), _pool("b", 2)))
    assert check(order, CATALOGUE, Limits(machines=7))
    wrong = _wrong(order, Limits(machines=6))
    assert wrong == {"worker_node_pools": "7 machines in one cluster, at most 6"}


def test_there_are_only_so_many_pools_and_the_rest_is_not_looked_at() -> None:
    limits = Limits(pools=2)
    wrong = _wrong(_order(pools=(_pool("a"), _pool("b"), _pool("!"))), limits)
    assert wrong == {"worker_node_pools": "3 pools, at most 2"}


@pytest.mark.parametrize(
    ("label", "field", "words"),
    [
        (Label(name="a b", value=""), "name", "is not a Kubernetes label name"),
        (Label(name="k8s.io/x", value=""), "name", "is reserved for Kubernetes and Windlass"),
        (Label(name="node-pool", value=""), "name", "is reserved"),
        (Label(name="a", value="b c"), "value", "is not a Kubernetes label value"),
    ],
)
def test_labels_are_those_a_node_may_carry(label: Label, field: str, words: str) -> None:
    wrong = _wrong(_order(pools=(_pool("a", labels=(label,)),)))
    assert list(wrong) == [f"worker_node_pools[0].labels[0].{field}"]
    assert words in next(iter(wrong.values()))
    wrong = _wrong(_order(control_plane=_pool("control-plane", labels=(label,))))
    assert list(wrong) == [f"control_plane_nodes.labels[0].{field}"]


def test_a_label_is_given_once() -> None:
    twice = (Label(name="a", value="1"), Label(name="b", value=""), Label(name="a", value="2"))
    wrong = _wrong(_order(pools=(_pool("p", labels=twice),)))
    assert wrong == {"worker_node_pools[0].labels[2].name": "'a' is given twice"}


def test_there_are_only_so_many_labels() -> None:
    many = tuple(Label(name=f"l{number}", value="") for number in range(65))
    wrong = _wrong(_order(pools=(_pool("p", labels=many),)))
    assert wrong == {"worker_node_pools[0].labels": "65 labels, at most 64"}


counts = st.integers(0, 5)


@given(counts, st.lists(counts, max_size=4))
def test_every_machine_asked_for_has_a_slot_control_plane_first(
    control_planes: int, workers: list[int]
) -> None:
    order = ClusterOrder(
        name="hello",
        control_plane=_pool("control-plane", control_planes),
        pools=tuple(_pool(f"p{number}", count) for number, count in enumerate(workers)),
    )
    slots = list(slots_of(order))
    assert len(slots) == control_planes + sum(workers)
    assert [role for role, _ in slots] == [Role.CONTROL_PLANE] * control_planes + [
        Role.WORKER
    ] * sum(workers)
    assert [pool.name for role, pool in slots if role is Role.WORKER] == [
        f"p{number}" for number, count in enumerate(workers) for _ in range(count)
    ]
