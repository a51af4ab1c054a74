"""What kubeadm is told, read back as kubeadm would read it."""

from typing import Any

import pytest
import yaml

from domain import kubeadm_config
from domain.machine import Machine, Role, Slot
from domain.releases import CATALOGUE, Release

ENDPOINT = "hello.windlass.test"
TOKEN = "abcdef." + "0" * 16
HASH = "sha256:" + "ab" * 32
KEY = "cd" * 32


def machine(version: str, role: Role = Role.CONTROL_PLANE) -> Machine:
    slot = Slot(
        cluster_uid="0" * 32,
        cluster="hello",
        name="control-plane-x7k2q",
        role=role,
        pool="control-plane",
        release=Release(version=version, series="jammy"),
        public_key="ssh-ed25519 AAAA",
    )
    return Machine(slot=slot, system_id="abc123", hostname="rack-1", address="10.0.0.7")


def documents(text: str) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def initialising(version: str) -> dict[str, dict[str, Any]]:
    return documents(kubeadm_config.initialising(machine(version), ENDPOINT, 6443))


def joining(version: str, certificate_key: str = "") -> dict[str, Any]:
    text = kubeadm_config.joining(
        machine(version),
        ENDPOINT,
        16443,
        token=TOKEN,
        ca_hash=HASH,
        certificate_key=certificate_key,
    )
    return documents(text)["JoinConfiguration"]


@pytest.mark.parametrize(
    ("version", "api"),
    [("1.22.0", "v1beta3"), ("1.30.8", "v1beta3"), ("1.31.0", "v1beta4"), ("1.33.0", "v1beta4")],
)
def test_speaks_the_newest_form_that_the_version_reads(version: str, api: str) -> None:
    found = initialising(version) | {"JoinConfiguration": joining(version)}
    versions = {document["apiVersion"] for document in found.values()}
    assert versions == {f"kubeadm.k8s.io/{api}", "kubelet.config.k8s.io/v1beta1"}


def test_arguments_are_a_list_since_v1beta4() -> None:
    old = initialising("1.30.8")["InitConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]
    new = initialising("1.31.4")["InitConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]
    assert old == {"node-ip": "10.0.0.7"}
    assert new == [{"name": "node-ip", "value": "10.0.0.7"}]


@pytest.mark.parametrize("release", CATALOGUE.releases, ids=lambda release: release.version)
def test_a_cluster_is_reached_under_its_endpoint_for_ever(release: Release) -> None:
    cluster = initialising(release.version)["ClusterConfiguration"]
    assert cluster["controlPlaneEndpoint"] == f"{ENDPOINT}:6443"
    assert ENDPOINT in cluster["apiServer"]["certSANs"]
    assert cluster["kubernetesVersion"] == f"v{release.version}"
    assert cluster["networking"]["podSubnet"] == kubeadm_config.POD_SUBNET


def test_a_node_is_called_by_its_slot() -> None:
    for document in (initialising("1.31.4")["InitConfiguration"], joining("1.31.4")):
        assert document["nodeRegistration"]["name"] == "control-plane-x7k2q"


def test_the_api_listens_where_it_is_told() -> None:
    local = initialising("1.31.4")["InitConfiguration"]["localAPIEndpoint"]
    assert local == {"advertiseAddress": "10.0.0.7", "bindPort": 6443}


def test_a_worker_has_no_part_in_the_control_plane() -> None:
    document = joining("1.31.4")
    assert "controlPlane" not in document
    assert document["discovery"] == {
        "bootstrapToken": {
            "token": TOKEN,
            "apiServerEndpoint": f"{ENDPOINT}:16443",
            "caCertHashes": [HASH],
        }
    }


def test_a_control_plane_node_brings_its_key() -> None:
    control_plane = joining("1.31.4", certificate_key=KEY)["controlPlane"]
    assert control_plane["certificateKey"] == KEY
    assert control_plane["localAPIEndpoint"]["bindPort"] == 16443


def test_a_check_needs_no_endpoint() -> None:
    found = documents(kubeadm_config.checking(machine("1.31.4"), 6443))
    assert "controlPlaneEndpoint" not in found["ClusterConfiguration"]
    assert "certificateKey" not in found["InitConfiguration"]


def test_an_upload_names_the_version_so_that_nobody_is_asked_for_it() -> None:
    found = documents(kubeadm_config.uploading(machine("1.30.8"), KEY, 6443))
    assert found["InitConfiguration"]["certificateKey"] == KEY
    assert found["ClusterConfiguration"]["kubernetesVersion"] == "v1.30.8"


def test_the_same_machine_is_told_the_same() -> None:
    one, other = (kubeadm_config.initialising(machine("1.31.4"), ENDPOINT, 6443) for _ in range(2))
    assert one == other
