"""Patches and server-side apply, as sums: an object and what is asked of it make another."""

import copy
from typing import Any

import pytest

from sim.kubernetes.apply import applied
from sim.kubernetes.errors import StatusError
from sim.kubernetes.patches import json_patched, merged, strategic

Body = dict[str, Any]

ONE = {"name": "one", "image": "a:1"}
TWO = {"name": "two", "image": "b:1"}


@pytest.mark.parametrize(
    ("body", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({}, {"a": None}, {}),
    ],
)
def test_a_merge_patch_merges(body: Body, patch: Body, result: Body) -> None:
    before = copy.deepcopy(body)
    assert merged(body, patch) == result
    assert body == before


@pytest.mark.parametrize(
    ("body", "patch", "result"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}, "d": 1}, {"a": {"$patch": "delete"}}, {"d": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c"], "c": 3}}, {"a": {"c": 3}}),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}),
        (
            {"containers": [ONE, TWO]},
            {"containers": [{"name": "two", "image": "b:2"}]},
            {"containers": [ONE, {"name": "two", "image": "b:2"}]},
        ),
        (
            {"containers": [ONE, TWO]},
            {"containers": [{"name": "one", "$patch": "delete"}]},
            {"containers": [TWO]},
        ),
        (
            {"containers": [ONE]},
            {"containers": [TWO], "$setElementOrder/containers": [{"name": "two"}]},
            {"containers": [TWO, ONE]},
        ),
        (
            {"containers": [ONE]},
            {"containers": [TWO, {"$patch": "replace"}]},
            {"containers": [TWO]},
        ),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["c"]}, {"finalizers": ["a", "b", "c"]}),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        (
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 80, "name": "http"}, {"port": 443}]},
            {"ports": [{"port": 80, "name": "http"}, {"port": 443}]},
        ),
    ],
)
def test_a_strategic_patch_knows_its_lists(body: Body, patch: Body, result: Body) -> None:
    before = copy.deepcopy(body)
    assert strategic(body, patch) == result
    assert body == before


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/b", "value": 2}, {"a": [1, 2], "m": {"x/y": 1}, "b": 2}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2], "m": {"x/y": 1}}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "m": {"x/y": 1}}),
        ({"op": "replace", "path": "/a/1", "value": 5}, {"a": [1, 5], "m": {"x/y": 1}}),
        ({"op": "replace", "path": "/m/x~1y", "value": 5}, {"a": [1, 2], "m": {"x/y": 5}}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2], "m": {"x/y": 1}}),
        ({"op": "remove", "path": "/m"}, {"a": [1, 2]}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"b": [1, 2], "m": {"x/y": 1}}),
        ({"op": "copy", "from": "/a/1", "path": "/b"}, {"a": [1, 2], "m": {"x/y": 1}, "b": 2}),
        ({"op": "test", "path": "/a", "value": [1, 2]}, {"a": [1, 2], "m": {"x/y": 1}}),
        ({"op": "replace", "path": "", "value": {"new": 1}}, {"new": 1}),
    ],
)
def test_a_json_patch_operates(operation: Body, result: Body) -> None:
    assert json_patched({"a": [1, 2], "m": {"x/y": 1}}, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/a/b/c", "value": 2},
        {"op": "dance", "path": "/a"},
        {"op": "add"},
        "add",
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(operation: Any) -> None:
    body: Body = {"a": 1}
    with pytest.raises(StatusError):
        json_patched(body, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert body == {"a": 1}


@pytest.mark.parametrize("patch", [{"op": "add"}, [{"op": "replace", "path": "", "value": 1}]])
def test_what_is_no_json_patch_is_refused(patch: Any) -> None:
    with pytest.raises(StatusError):
        json_patched({}, patch)


def workload(*containers: Body, **labels: str) -> Body:
    metadata: Body = {"name": "web", "namespace": "default"}
    if labels:
        metadata["labels"] = labels
    spec = {"template": {"spec": {"containers": list(containers)}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def apply(live: Body | None, config: Body, manager: str, *, force: bool = False) -> Body:
    return applied(live, config, manager=manager, force=force, time="2027-01-01T00:00:00Z")


def containers(body: Body) -> list[Body]:
    found: list[Body] = body["spec"]["template"]["spec"]["containers"]
    return found


def test_appliers_share_a_list_by_its_keys() -> None:
    live = apply(None, workload(ONE), "mine")
    live = apply(live, workload(TWO), "theirs")
    assert containers(live) == [ONE, TWO]
    live = apply(live, workload(ONE | {"image": "a:2"}), "mine")
    assert containers(live) == [ONE | {"image": "a:2"}, TWO]
    live = apply(live, workload(ONE | {"image": "a:2"}), "theirs")
    assert containers(live) == [ONE | {"image": "a:2"}]


def test_leaving_a_list_out_takes_what_was_ones_own() -> None:
    live = apply(None, workload(ONE, TWO, colour="red"), "mine")
    config = workload(ONE)
    live = apply(live, config, "mine")
    assert containers(live) == [ONE]
    assert "labels" not in live["metadata"]


def test_what_nobody_applied_stays() -> None:
    live = apply(None, workload(ONE), "mine")
    live = live | {"status": {"replicas": 1}}
    live["spec"]["replicas"] = 3
    live = apply(live, workload(ONE), "mine")
    assert live["status"] == {"replicas": 1}
    assert live["spec"]["replicas"] == 3


def test_applying_the_same_again_changes_nothing() -> None:
    live = apply(None, workload(ONE, TWO, colour="red"), "mine")
    assert apply(live, workload(ONE, TWO, colour="red"), "mine") == live


def test_two_may_apply_the_same_and_only_the_last_to_leave_takes_it() -> None:
    live = apply(None, workload(ONE, colour="red"), "mine")
    live = apply(live, workload(ONE, colour="red"), "theirs")
    live = apply(live, workload(ONE), "mine")
    assert live["metadata"]["labels"] == {"colour": "red"}
    live = apply(live, workload(ONE), "theirs")
    assert "labels" not in live["metadata"]


def test_every_conflict_is_named() -> None:
    live = apply(None, workload(ONE, colour="red"), "mine")
    other = workload(ONE | {"image": "c:1"}, colour="blue")
    with pytest.raises(StatusError, match="Apply failed with 2 conflicts") as refused:
        apply(live, other, "theirs")
    fields = [cause["field"] for cause in refused.value.status["details"]["causes"]]
    assert fields == [
        ".metadata.labels.colour",
        '.spec.template.spec.containers[{"name":"one"}].image',
    ]
    taken = apply(live, other, "theirs", force=True)
    assert containers(taken) == [ONE | {"image": "c:1"}]
    owners = {entry["manager"]: entry["fieldsV1"] for entry in taken["metadata"]["managedFields"]}
    assert "f:metadata" not in owners["mine"]
