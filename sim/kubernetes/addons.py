"""What kubeadm puts into a new cluster: kube-proxy, CoreDNS and its own configuration."""

from sim.clusters.cluster import Cluster
from sim.kubernetes.errors import Body
from sim.kubernetes.kinds import CONFIGMAPS, DAEMONSETS, DEPLOYMENTS
from sim.kubernetes.objects import Objects, Options

_SYSTEM = "kube-system"
_MERGE = "application/merge-patch+json"
_EVERYWHERE = [{"operator": "Exists"}]
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def install(cluster: Cluster, objects: Objects) -> None:
    """Put them in. Only into a cluster without objects."""
    options = Options(manager="kubeadm")
    objects.create(DAEMONSETS, _SYSTEM, _proxy(cluster), options)
    objects.create(DEPLOYMENTS, _SYSTEM, _dns(), options)
    objects.create(CONFIGMAPS, _SYSTEM, _configuration(cluster), options)


def renew(cluster: Cluster, objects: Objects) -> None:
    """Let them follow the version that the cluster is configured for. Those that somebody has
    taken away stay away."""
    options = Options(manager="kubeadm")
    for kind, body in ((CONFIGMAPS, _configuration(cluster)), (DAEMONSETS, _proxy(cluster))):
        name = body["metadata"]["name"]
        if objects.find(kind, _SYSTEM, name) is not None:
            changed = {part: body[part] for part in ("data", "spec") if part in body}
            objects.patch(kind, _SYSTEM, name, _MERGE, changed, options)


def _proxy(cluster: Cluster) -> Body:
    image = f"kube-proxy:v{cluster.version}"
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": _EVERYWHERE,
        "containers": [{"name": "kube-proxy", "image": image}],
    }
    return _workload("kube-proxy", {}, pod)


def _dns() -> Body:
    pod = {
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": _CONTROL_PLANE, "effect": "NoSchedule", "operator": "Exists"}],
        "containers": [{"name": "coredns", "image": "coredns:v1.11.3"}],
    }
    return _workload("coredns", {"replicas": 2}, pod)


def _workload(name: str, spec: Body, pod: Body) -> Body:
    labels = {"k8s-app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "selector": {"matchLabels": labels}, "template": template},
    }


def _configuration(cluster: Cluster) -> Body:
    text = "\n".join(
        (
            "apiVersion: kubeadm.k8s.io/v1beta3",
            "kind: ClusterConfiguration",
            f"controlPlaneEndpoint: {cluster.endpoint}:{cluster.port}",
            f"kubernetesVersion: v{cluster.version}",
            "networking:",
            f"  podSubnet: {cluster.pod_subnet}",
            f"  serviceSubnet: {cluster.service_subnet}",
            "",
        )
    )
    return {"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": text}}
