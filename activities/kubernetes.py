"""What is asked of a cluster's own API."""

from temporalio import activity

from activities.waiting import until, until_true
from domain.ports import ClusterApi, Kubelet, Node


class Kubernetes:
    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    @activity.defn(name="kubernetes.wait_api")
    async def wait_api(self, node: Node) -> None:
        """Only looks: whether the API answers through its endpoint."""
        what = f"the API of {node.endpoint} was to answer"
        await until_true(what, lambda: self._api.ready(node))

    @activity.defn(name="kubernetes.install_network")
    async def install_network(self, node: Node) -> None:
        """Safe to repeat: applied, not created."""
        await self._api.install_network(node)

    @activity.defn(name="kubernetes.wait_node")
    async def wait_node(self, node: Node) -> Kubelet:
        """Only looks: the kubelet's version once the node is Ready."""

        async def ready() -> Kubelet | None:
            version = await self._api.node_ready(node)
            return None if version is None else Kubelet(version=version)

        return await until(f"node {node.named} was to be Ready", ready)

    @activity.defn(name="kubernetes.label")
    async def label(self, node: Node) -> None:
        """Safe to repeat: set, not added."""
        await self._api.label(node)

    @activity.defn(name="kubernetes.delete_node")
    async def delete_node(self, node: Node) -> None:
        """Safe to repeat: no such node is success."""
        await self._api.delete_node(node)
