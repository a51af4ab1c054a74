"""What a Kubernetes with Rook in it says, by documents as its API gives them out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from domain.koor_cluster import Care, Totals, koor_cluster, totals
from domain.quantity import amount
from domain.reliability import Score
from domain.storage import Light
from domain.storage_home import Home, Listed, home, oldest
from domain.storage_look import Look, deployments, nodes, parts, resources
from domain.storage_resources import Standing
from tests.domain.ceph import seen

READY, PROGRESSING, NOT_READY, UNKNOWN = (
    Standing.READY,
    Standing.PROGRESSING,
    Standing.NOT_READY,
    Standing.UNKNOWN,
)


def node(name: str, *, ready: str | None = "True", **capacity: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return {
        "metadata": {
            "name": name,
            "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/osd": ""},
            "creationTimestamp": "2026-11-18T08:29:31Z",
        },
        "status": {
            "conditions": conditions,
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "ExternalDNS", "address": f"{name}.example"},
            ],
            "capacity": capacity or {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "200G"},
            "nodeInfo": {"kubeletVersion": "v1.32.1"},
        },
    }


def deployment(name: str, app: str, ready: int = 1, wanted: int = 1, **status: Any) -> Any:
    return {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"replicas": wanted},
        "status": {"readyReplicas": ready, "updatedReplicas": wanted, **status},
    }


def custom(name: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def rooks(**more: Any) -> dict[str, Any]:
    return {
        "CephCluster": (
            custom(
                "rook-ceph",
                {"state": "Created", "ceph": {"health": "HEALTH_OK"}},
                mon={"count": 3},
                storage={"useAllDevices": True},
            ),
        ),
        "CephBlockPool": (
            custom("cephfs_data", {"phase": "Ready"}, replicated={"size": 3}),
            custom(
                "coded", {"phase": "Failure"}, erasureCoded={"dataChunks": 4, "codingChunks": 2}
            ),
        ),
        **more,
    }


def housed(**more: Any) -> Home:
    listed = Listed(
        nodes=(node("b"), node("a", ready="False"), node("c", ready=None)),
        pods=({"spec": {"nodeName": "a"}}, {"spec": {"nodeName": "b"}}, {"spec": {}}),
        deployments=(
            deployment("rook-ceph-mon-a", "rook-ceph-mon"),
            deployment("rook-ceph-osd-0", "rook-ceph-osd", ready=0),
            deployment("csi-rbdplugin-provisioner", "csi-rbdplugin-provisioner", 2, 2),
            deployment("rook-ceph-tools", "rook-ceph-tools"),
        ),
        rook=rooks(**more),
    )
    return home("rook-ceph", listed)


@pytest.mark.parametrize(
    ("said", "number"),
    [("", 0), ("4", 4), ("250m", 0.25), ("395327632Ki", 395327632 * 1024), ("479Gi", 479 * 2**30)],
)
def test_amounts(said: str, number: float) -> None:
    assert amount(said) == pytest.approx(number)


def test_an_amount_in_no_unit_is_none() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        amount("many")


def test_nodes_are_those_that_storage_runs_on() -> None:
    found = nodes(Look(observation=seen(), home=housed()), Light.OK)
    assert [(each.name, each.standing) for each in found] == [("a", NOT_READY), ("b", READY)]
    assert found[0].roles == ("osd", "worker")
    assert (found[0].internal, found[0].external) == ("10.0.0.7", "a.example")
    assert found[0].created == datetime(2026, 11, 18, 8, 29, 31, tzinfo=UTC)
    strangers = home("rook-ceph", Listed(nodes=(node("a"), node("c", ready=None))))
    assert strangers.members[1].node.standing is UNKNOWN
    assert [each.name for each in nodes(Look(observation=seen(), home=strangers), Light.OK)] == [
        "node-a"
    ]


def test_rooks_own_kinds_are_shown_where_there_is_rook() -> None:
    look = Look(observation=seen(), home=housed(CephObjectStore=None))
    found = resources("ceph", look, Light.OK)
    assert [(each.kind, each.name, each.standing, each.wanted) for each in found] == [
        ("CephCluster", "rook-ceph", READY, 3),
        ("CephBlockPool", "cephfs_data", READY, 3),
        ("CephBlockPool", "coded", NOT_READY, 6),
        ("CephObjectStore", "", UNKNOWN, 0),
    ]
    assert {each.api_version for each in found} == {"ceph.rook.io/v1"}
    assert [each.score for each in found] == [Score.NONE, Score.DEGRADED, None, None]
    assert look.home is not None
    assert look.home.incomplete == ("CephObjectStore",)


@pytest.mark.parametrize(
    ("kind", "status", "standing"),
    [
        *(
            ("CephCluster", {"state": state, "ceph": {"health": "x"}}, standing)
            for state, standing in (
                *(("Created", READY), ("Connected", READY), ("Updating", PROGRESSING)),
                *(("Creating", PROGRESSING), ("Connecting", PROGRESSING), ("Error", NOT_READY)),
                *(("Deleting", NOT_READY), ("", UNKNOWN), ("Singing", UNKNOWN)),
            )
        ),
        ("CephCluster", {"state": "Created"}, UNKNOWN),
        ("CephFilesystem", {"phase": "Ready"}, READY),
        ("CephFilesystem", {"phase": "Progressing"}, PROGRESSING),
        ("CephFilesystem", {"phase": "Failure"}, NOT_READY),
        ("CephObjectStore", {}, UNKNOWN),
    ],
)
def test_every_word_of_rooks_has_a_standing(
    kind: str, status: dict[str, Any], standing: Standing
) -> None:
    found = home("n", Listed(nodes=(), rook={kind: (custom("x", status),)}))
    assert [each.standing for each in found.resources] == [standing]


def test_a_file_system_wants_as_many_again_and_a_store_its_gateways() -> None:
    rook = {
        "CephFilesystem": (custom("fs", {}, metadataServer={"activeCount": 2}),),
        "CephObjectStore": (custom("os", {}, gateway={"instances": 3}),),
    }
    found = home("n", Listed(nodes=(), rook=rook))
    assert [each.wanted for each in found.resources] == [4, 3]


def test_deployments_are_scored_by_their_group() -> None:
    look = Look(observation=seen("osd-down"), home=housed())
    found = {each.name: each for each in deployments("ceph", look, Light.WARN)}
    assert {name: (each.standing, each.score) for name, each in found.items()} == {
        "csi-rbdplugin-provisioner": (READY, Score.OK),
        "rook-ceph-mon-a": (READY, Score.NONE),
        "rook-ceph-osd-0": (NOT_READY, Score.DEGRADED),
        "rook-ceph-tools": (READY, Score.OK),
    }
    assert {each.kind for each in found.values()} == {"Deployment"}
    assert len(parts(look)) == len(parts(Look(observation=seen("osd-down")))) + 1


@pytest.mark.parametrize(
    ("said", "standing"),
    [
        (deployment("d", "d", ready=1, wanted=1), READY),
        (deployment("d", "d", ready=0, wanted=0), NOT_READY),
        (deployment("d", "d", ready=1, wanted=2), NOT_READY),
        (deployment("d", "d", ready=1, wanted=2, updatedReplicas=1), PROGRESSING),
        ({"metadata": {"name": "d"}, "spec": {}}, UNKNOWN),
    ],
)
def test_a_deployment_stands(said: Any, standing: Standing) -> None:
    [found] = home("n", Listed(nodes=(), deployments=(said,))).deployments
    assert found.standing is standing


def test_all_nodes_count_for_what_a_cluster_has() -> None:
    look = Look(observation=seen(), home=housed())
    assert totals(look) == Totals(
        nodes=3, storage_bytes=600 * 10**9, cpus=24, memory_bytes=48 * 2**30
    )
    assert not totals(look).enough, "a node is missing"
    assert totals(look).model_copy(update={"nodes": 4}).enough
    koor = koor_cluster("ceph", look, Care())
    assert (koor.kube, koor.toolbox, koor.uses_all_devices) == ("1.32.1", True, True)
    assert koor.namespace == "rook-ceph"


def test_the_oldest_version_is_by_numbers() -> None:
    assert oldest(["1.32.1", "1.9.7", "", "1.27.3+k3s1"]) == "1.9.7"
    assert oldest([]) == ""


def test_a_home_can_be_kept() -> None:
    look = Look(observation=seen(), home=housed())
    assert Look.model_validate_json(look.model_dump_json()) == look
