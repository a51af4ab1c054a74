"""What is said of a cluster before somebody changes it that was made for another."""

import pytest

from domain.ownership import OWNER_LENGTH, SHOWN_LENGTH, shown, warning

WHERE = '"cloudlet_key":{"name":"west","operator_key":{"name":"tele"}}'
STRANGE = (
    "somebody",
    "ClusterInst",
    "ClusterInst []",
    'ClusterInst {"cloudlet_key":7}',
    "ClusterInst {" + WHERE + ',"cluster_key":{"name":7},"developer":"acme"}',
    "ClusterInst {" + WHERE + ',"cluster_key":{"name":"shop"}}',
)


def test_a_cluster_of_nobody_needs_no_warning() -> None:
    assert warning("hello", "") == ""
    assert warning("hello", "me").startswith("cluster hello belongs to me, which")


def test_a_clusterinst_is_written_as_the_command_takes_it() -> None:
    key = "{" + WHERE + ',"cluster_key":{"name":"shop"},"developer":"acme"}'
    assert shown(f"ClusterInst {key}") == "ClusterInst tele/west/shop/acme"


@pytest.mark.parametrize("owner", STRANGE)
def test_what_a_maker_wrote_in_another_form_is_shown_as_it_is(owner: str) -> None:
    assert shown(owner) == owner


@pytest.mark.parametrize("owner", ["x" * OWNER_LENGTH, "ClusterInst " + "[" * 1900])
def test_only_the_beginning_of_a_long_one_is_shown(owner: str) -> None:
    assert shown(owner) == owner[:SHOWN_LENGTH]
