"""Choosing a machine: laws that hold for every fleet."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from domain.candidates import Candidate, in_order
from domain.machine import Role, Search, Slot
from domain.releases import CATALOGUE

fleets = st.lists(
    st.builds(
        Candidate,
        system_id=st.text("abcdef0123456789", min_size=6, max_size=6),
        zone=st.sampled_from("abc"),
        cost=st.sampled_from([5.0, 12.0, 80.0]),
    ),
    unique_by=lambda candidate: candidate.system_id,
)
counts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 5))


def search(name: str = "workers-x7k2p", avoid: tuple[str, ...] = ()) -> Search:
    slot = Slot(
        cluster_uid="1f6f6f2c9d5e4a7b",
        cluster="hello",
        name=name,
        role=Role.WORKER,
        pool="workers",
        release=CATALOGUE.releases[0],
        public_key="",
    )
    return Search(slot=slot, avoid=avoid)


@given(fleets, counts)
def test_the_order_machines_arrive_in_does_not_matter(
    fleet: list[Candidate], neighbours: dict[str, int]
) -> None:
    assert in_order(search(), fleet, neighbours) == in_order(search(), fleet[::-1], neighbours)


@given(fleets, counts)
def test_lonely_zones_come_first_and_there_the_cheapest(
    fleet: list[Candidate], neighbours: dict[str, int]
) -> None:
    ordered = in_order(search(), fleet, neighbours)
    ranks = [(neighbours.get(one.zone, 0), one.cost) for one in ordered]
    assert ranks == sorted(ranks)


@given(fleets, st.sets(st.integers(0, 9)))
def test_all_are_offered_but_those_to_avoid(fleet: list[Candidate], bad: set[int]) -> None:
    avoid = tuple(one.system_id for index, one in enumerate(fleet) if index in bad)
    offered = {one.system_id for one in in_order(search(avoid=avoid), fleet, {})}
    assert offered == {one.system_id for one in fleet} - set(avoid)


def test_slots_that_choose_at_once_seldom_want_the_same() -> None:
    fleet = [Candidate(system_id=f"{index:06}", zone="a", cost=5) for index in range(100)]
    wanted = Counter(
        in_order(search(f"workers-{index:05}"), fleet, {})[0].system_id for index in range(20)
    )
    assert max(wanted.values()) <= 3
