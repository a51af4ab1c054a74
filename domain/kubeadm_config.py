"""What kubeadm is told, as text for the file it reads. JSON is YAML, and has but one way to be
written, so nothing in a name or a token can become syntax."""

import json
from typing import Any

from domain.machine import Machine
from domain.releases import Version

POD_SUBNET = "10.244.0.0/16"
"""Where pods live. The pod network that is installed must be told the same."""

SERVICE_SUBNET = "10.96.0.0/12"

_CRI_SOCKET = "unix:///run/containerd/containerd.sock"
_ARGUMENTS_ARE_LISTS = Version(major=1, minor=31, patch=0)
"""Since then v1beta4 is read, and we write nothing else."""


def initialising(machine: Machine, endpoint: str, port: int, images: str = "") -> str:
    """For the first control-plane node. `endpoint` is the cluster's name for ever: it goes into
    every certificate. `images`: the repository that they come from, if it is one of our own."""
    return _documents(
        _initial(machine, port),
        _cluster(machine, endpoint, port, images),
        _kubelet(),
    )


def checking(machine: Machine, port: int, images: str = "") -> str:
    """For a preflight alone, which needs no endpoint."""
    return _documents(
        _initial(machine, port),
        _cluster(machine, "", port, images),
    )


def uploading(machine: Machine, certificate_key: str, port: int) -> str:
    """For `kubeadm init phase upload-certs` on a control-plane node. The version is named so that
    kubeadm does not go and ask the internet for the newest."""
    return _documents(
        _initial(machine, port, certificateKey=certificate_key),
        _cluster(machine, "", port),
    )


def joining(
    machine: Machine,
    endpoint: str,
    port: int,
    *,
    token: str,
    ca_hash: str,
    certificate_key: str = "",
) -> str:
    """For a node of a cluster that is there: a control-plane node if there is a certificate key.
    Holds secrets."""
    more: dict[str, Any] = {}
    if certificate_key:
        more["controlPlane"] = {
            "certificateKey": certificate_key,
            "localAPIEndpoint": _local(machine, port),
        }
    discovery = {
        "token": token,
        "apiServerEndpoint": f"{endpoint}:{port}",
        "caCertHashes": [ca_hash],
    }
    return _documents(
        _kubeadm(
            machine,
            "JoinConfiguration",
            discovery={"bootstrapToken": discovery},
            nodeRegistration=_registration(machine),
            **more,
        )
    )


def _kubeadm(machine: Machine, kind: str, **fields: Any) -> dict[str, Any]:
    listed = _lists_arguments(machine)
    version = "v1beta4" if listed else "v1beta3"
    return {"apiVersion": f"kubeadm.k8s.io/{version}", "kind": kind, **fields}


def _initial(machine: Machine, port: int, **more: Any) -> dict[str, Any]:
    return _kubeadm(
        machine,
        "InitConfiguration",
        localAPIEndpoint=_local(machine, port),
        nodeRegistration=_registration(machine),
        **more,
    )


def _cluster(machine: Machine, endpoint: str, port: int, images: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {
        "clusterName": machine.slot.cluster,
        "kubernetesVersion": f"v{machine.slot.release.version}",
        "networking": {"podSubnet": POD_SUBNET, "serviceSubnet": SERVICE_SUBNET},
    }
    if images:
        fields["imageRepository"] = images
    if endpoint:
        fields["controlPlaneEndpoint"] = f"{endpoint}:{port}"
        fields["apiServer"] = {"certSANs": [endpoint, machine.address]}
    return _kubeadm(machine, "ClusterConfiguration", **fields)


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
    }


def _registration(machine: Machine) -> dict[str, Any]:
    arguments = {"node-ip": machine.address}
    return {
        "name": machine.slot.name,
        "criSocket": _CRI_SOCKET,
        "kubeletExtraArgs": [{"name": name, "value": value} for name, value in arguments.items()]
        if _lists_arguments(machine)
        else arguments,
    }


def _lists_arguments(machine: Machine) -> bool:
    return Version.parse(machine.slot.release.version) >= _ARGUMENTS_ARE_LISTS


def _local(machine: Machine, port: int) -> dict[str, Any]:
    return {"advertiseAddress": machine.address, "bindPort": port}


def _documents(*documents: dict[str, Any]) -> str:
    return "---\n".join(json.dumps(document, indent=1) + "\n" for document in documents)
