"""Reading the configuration that kubeadm is given, as strictly as the version given it would."""

from collections.abc import Mapping
from typing import Any

import yaml

from domain.frozen import Frozen
from domain.releases import Version
from sim.clusters.cluster import Taint

_GROUP = "kubeadm.k8s.io/"
_SINCE = {
    "v1beta3": Version(major=1, minor=22, patch=0),
    "v1beta4": Version(major=1, minor=31, patch=0),
}


class ConfigError(Exception):
    """The configuration cannot be used. kubeadm ends with code 3 then, or with 1."""


class Wanted(Frozen):
    """What a run of kubeadm is to do, from its configuration and its flags."""

    node_name: str
    taints: tuple[Taint, ...] = ()
    endpoint: str = ""
    """With its port."""
    advertise: str = ""
    port: int = 6443
    version: str = ""
    alternatives: tuple[str, ...] = ()
    pod_subnet: str = "10.244.0.0/16"
    service_subnet: str = "10.96.0.0/12"
    certificate_key: str = ""
    control_plane: bool = False
    token: str = ""
    api_endpoint: str = ""
    ca_hashes: tuple[str, ...] = ()

    @property
    def endpoint_name(self) -> str:
        return self.endpoint.rpartition(":")[0]


def read(text: str, kubeadm: str, hostname: str) -> Wanted:
    """What the documents of a configuration file say together, to a kubeadm of this version."""
    documents = _documents(text, Version.parse(kubeadm))
    own = documents.get("InitConfiguration") or documents.get("JoinConfiguration") or {}
    shared = documents.get("ClusterConfiguration") or {}
    registration = own.get("nodeRegistration") or {}
    control_plane = own.get("controlPlane")
    local = (control_plane or own).get("localAPIEndpoint") or {}
    discovery = (own.get("discovery") or {}).get("bootstrapToken") or {}
    networking = shared.get("networking") or {}
    return Wanted(
        node_name=registration.get("name") or hostname,
        taints=tuple(Taint(**taint) for taint in registration.get("taints") or ()),
        endpoint=shared.get("controlPlaneEndpoint", ""),
        advertise=local.get("advertiseAddress", ""),
        port=int(local.get("bindPort", 6443)),
        version=str(shared.get("kubernetesVersion", "")).removeprefix("v"),
        alternatives=tuple((shared.get("apiServer") or {}).get("certSANs") or ()),
        pod_subnet=networking.get("podSubnet", "10.244.0.0/16"),
        service_subnet=networking.get("serviceSubnet", "10.96.0.0/12"),
        certificate_key=(control_plane or own).get("certificateKey", ""),
        control_plane=control_plane is not None,
        token=discovery.get("token", ""),
        api_endpoint=discovery.get("apiServerEndpoint", ""),
        ca_hashes=tuple(discovery.get("caCertHashes") or ()),
    )


def _documents(text: str, kubeadm: Version) -> dict[str, dict[str, Any]]:
    try:
        found = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        raise ConfigError(f"error converting YAML to JSON: {error}") from error
    documents: dict[str, dict[str, Any]] = {}
    for document in found:
        version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        if version.startswith(_GROUP):
            _check_version(version.removeprefix(_GROUP), kind, kubeadm)
            _check_arguments(document, version.endswith("v1beta4"))
        documents[kind] = document
    return documents


def _check_version(version: str, kind: str, kubeadm: Version) -> None:
    if version not in _SINCE or kubeadm < _SINCE[version]:
        raise ConfigError(
            f'no kind "{kind}" is registered for version "{_GROUP}{version}" in scheme '
            '"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme/scheme.go:30"'
        )


def _check_arguments(value: object, listed: bool) -> None:
    """Extra arguments are a mapping until v1beta3 and a list since v1beta4."""
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if str(key).lower().endswith("extraargs") and isinstance(inner, list) != listed:
            wanted = "[]v1beta4.Arg" if listed else "map[string]string"
            raise ConfigError(
                f"json: cannot unmarshal {type(inner).__name__} into Go struct field "
                f".{key} of type {wanted}"
            )
        _check_arguments(inner, listed)
