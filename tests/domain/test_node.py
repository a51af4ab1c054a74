"""What nodes say, and which addresses they get."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from domain.errors import Invalid
from domain.node import HEARD, NodePhase, Said, address_in, lowest_free, network


def test_whatever_a_node_says_means_something_and_nobody_calls_itself_lost() -> None:
    assert HEARD.keys() == set(Said)
    assert NodePhase.LOST not in HEARD.values()


@pytest.mark.parametrize("pool", ["", "10.0.0.0/25", "fd00::/8", "10.0.0.1/8", "nonsense"])
def test_a_pool_has_to_hold_a_subnet(pool: str) -> None:
    with pytest.raises(Invalid, match="no IPv4 network"):
        network(pool)


def test_k21_the_lowest_free_subnet_is_given_until_there_is_none() -> None:
    pool = network("10.64.0.0/23")
    assert lowest_free(pool, []) == "10.64.0.0/24"
    assert lowest_free(pool, ["10.64.0.0/24"]) == "10.64.1.0/24"
    assert lowest_free(pool, ["10.64.0.0/24", "10.64.1.0/24"]) is None


@given(some.sets(some.integers(0, 255)))
def test_an_address_is_free_and_never_the_network_the_gateway_or_the_last(used: set[int]) -> None:
    taken = [f"10.64.7.{number}" for number in used]
    address = address_in("10.64.7.0/24", taken)
    if address is None:
        assert used >= set(range(2, 255))
    else:
        assert address not in taken
        assert 2 <= int(address.rpartition(".")[2]) <= 254


@pytest.mark.parametrize(
    ("wanted", "given_"),
    [
        ("10.64.7.9", "10.64.7.9"),
        ("10.64.7.2", None),
        ("10.64.7.1", None),
        ("10.64.7.255", None),
        ("10.64.8.9", None),
        ("x", None),
    ],
)
def test_a_wanted_address_has_to_be_in_the_subnet_and_free(wanted: str, given_: str | None) -> None:
    assert address_in("10.64.7.0/24", ["10.64.7.2"], wanted) == given_
