import copy
from typing import Any

import pytest

from domain import kubeconfig
from domain.errors import Invalid


def _admin(ca: str = "Y2E=") -> dict[str, Any]:
    """What kubeadm writes, whichever the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {
                "name": "kubernetes",
                "cluster": {"certificate-authority-data": ca, "server": "https://10.0.0.1:6443"},
            }
        ],
        "contexts": [
            {
                "name": "kubernetes-admin@kubernetes",
                "context": {"cluster": "kubernetes", "user": "kubernetes-admin"},
            }
        ],
        "users": [{"name": "kubernetes-admin", "user": {"client-certificate-data": "Y2VydA=="}}],
        "current-context": "kubernetes-admin@kubernetes",
    }


def _hello() -> dict[str, Any]:
    return kubeconfig.rewritten(_admin(), cluster="hello", server="https://hello.example:6443")


def test_everything_is_named_after_the_cluster_and_leads_to_the_server() -> None:
    assert _hello() == {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {
                "name": "hello",
                "cluster": {
                    "certificate-authority-data": "Y2E=",
                    "server": "https://hello.example:6443",
                },
            }
        ],
        "contexts": [{"name": "hello", "context": {"cluster": "hello", "user": "hello-admin"}}],
        "users": [{"name": "hello-admin", "user": {"client-certificate-data": "Y2VydA=="}}],
        "current-context": "hello",
    }


def test_rewriting_leaves_its_input_alone() -> None:
    document = _admin()
    kubeconfig.rewritten(document, cluster="hello", server="https://hello.example:6443")
    assert document == _admin()


def test_rewriting_twice_is_rewriting_once() -> None:
    once = _hello()
    again = kubeconfig.rewritten(once, cluster="hello", server="https://hello.example:6443")
    assert again == once


def test_only_the_current_context_is_handed_out() -> None:
    document = _admin()
    document["users"].append({"name": "somebody", "user": {"token": "not yours"}})
    handed = kubeconfig.rewritten(document, cluster="hello", server="https://hello.example:6443")
    assert [user["name"] for user in handed["users"]] == ["hello-admin"]


def test_a_namespace_in_the_context_is_kept() -> None:
    document = _admin()
    document["contexts"][0]["context"]["namespace"] = "edge"
    handed = kubeconfig.rewritten(document, cluster="hello", server="https://hello.example:6443")
    assert handed["contexts"][0]["context"]["namespace"] == "edge"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"current-context": ""}, "has no current-context"),
        ({"current-context": "elsewhere"}, "no entry 'elsewhere' under contexts"),
        ({"clusters": None}, "no entry 'kubernetes' under clusters"),
        ({"users": []}, "no entry 'kubernetes-admin' under users"),
        ({"users": [{"name": "kubernetes-admin"}]}, "no entry 'kubernetes-admin' under users"),
        ({"contexts": "none"}, "contexts of the kubeconfig is not a list"),
        ({"clusters": [{"cluster": {}}]}, "clusters of the kubeconfig is not a list"),
    ],
)
def test_what_is_no_kubeconfig_is_refused(broken: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        kubeconfig.rewritten(
            _admin() | broken, cluster="hello", server="https://hello.example:6443"
        )


@pytest.mark.parametrize("empty", [{}, {"clusters": None, "contexts": None, "users": None}])
def test_merging_into_nothing_is_the_addition(empty: dict[str, Any]) -> None:
    assert kubeconfig.merged(empty, _hello()) == _hello()


def test_a_users_file_keeps_all_that_was_in_it() -> None:
    mine = _admin() | {"extensions": [{"name": "mine"}]}
    both = kubeconfig.merged(mine, _hello())
    assert [entry["name"] for entry in both["clusters"]] == ["kubernetes", "hello"]
    assert [entry["name"] for entry in both["users"]] == ["kubernetes-admin", "hello-admin"]
    assert both["extensions"] == [{"name": "mine"}]
    assert both["current-context"] == "kubernetes-admin@kubernetes"


def test_switching_makes_the_addition_current() -> None:
    both = kubeconfig.merged(_admin(), _hello(), switch=True)
    assert both["current-context"] == "hello"


def test_entries_of_the_same_names_are_replaced_in_place() -> None:
    old = kubeconfig.merged(_hello(), _admin())
    new = kubeconfig.rewritten(_admin("bmV3"), cluster="hello", server="https://new.example:6443")
    both = kubeconfig.merged(old, new)
    assert [entry["name"] for entry in both["clusters"]] == ["hello", "kubernetes"]
    assert both["clusters"][0]["cluster"] == {
        "certificate-authority-data": "bmV3",
        "server": "https://new.example:6443",
    }


def test_merging_leaves_both_alone() -> None:
    mine, theirs = _admin(), _hello()
    before = copy.deepcopy((mine, theirs))
    kubeconfig.merged(mine, theirs, switch=True)
    assert (mine, theirs) == before


def test_merging_twice_is_merging_once() -> None:
    once = kubeconfig.merged(_admin(), _hello())
    assert kubeconfig.merged(once, _hello()) == once
