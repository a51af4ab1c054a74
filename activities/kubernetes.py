"""What is asked of a cluster's own API."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic

from temporalio import activity

from activities.waiting import began, until, until_true
from domain.counting import several
from domain.errors import Failed, Overdue, Unavailable
from domain.ports import ClusterApi, Draining, Kubelet, Node, Returning, Supply

ROUND_SECONDS = 30.0
"""After so long a drain says what it waits for and is tried again."""

ASK_AGAIN_SECONDS = 0.5
MOST_SECONDS = 5.0
"""The first and the longest pause before the pods that are left are asked again."""

RETURN_SECONDS = 1.0
"""How often it is looked whether a node is back."""

MOST_NAMED = 8
"""So many of the pods that will not go are named."""


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
        """Safe to repeat: applied, not created. A network of an older release becomes that of the
        slot's."""
        await self._api.install_network(node)

    @activity.defn(name="kubernetes.supply")
    async def supply(self, supply: Supply) -> None:
        """Safe to repeat: applied, not created."""
        await self._api.supply(supply)

    @activity.defn(name="kubernetes.wait_node")
    async def wait_node(self, node: Node) -> Kubelet:
        """Only looks: the kubelet's version once the node is Ready."""

        async def ready() -> Kubelet | None:
            version = await self._api.node_ready(node)
            return None if version is None else Kubelet(version=version)

        return await until(f"node {node.named} was to be Ready", ready)

    @activity.defn(name="kubernetes.wait_version")
    async def wait_version(self, node: Node) -> Kubelet:
        """Only looks: the node is Ready and its kubelet runs the slot's release."""
        wanted = node.slot.release.version

        async def renewed() -> Kubelet | None:
            version = await self._api.node_ready(node)
            return Kubelet(version=version) if version == wanted else None

        what = f"node {node.named} was to be Ready with kubelet {wanted}"
        return await until(what, renewed)

    @activity.defn(name="kubernetes.wait_api_version")
    async def wait_api_version(self, node: Node) -> None:
        """Only looks: the API server at the node's own address, the first it has, runs the slot's
        release."""
        wanted = node.slot.release.version

        async def renewed() -> bool:
            return await self._api.api_version(node) == wanted

        await until_true(f"the API server on {node.named} was to be {wanted}", renewed)

    @activity.defn(name="kubernetes.check_node")
    async def check_node(self, node: Node) -> Kubelet:
        """Only looks, and only once: the kubelet's version of a node that is Ready. Failed with
        the reason NODE_NOT_READY if the API says that it is not."""
        version = await self._api.node_ready(node)
        if version is None:
            reason = "NODE_NOT_READY"
            raise Failed(f"node {node.named} is not Ready", subject=node.named, reason=reason)
        return Kubelet(version=version)

    @activity.defn(name="kubernetes.wait_return")
    async def wait_return(self, returning: Returning) -> Kubelet:
        """Only looks: the kubelet's version once the node is Ready again. Overdue if it is not
        until then, with the reason NODE_NOT_READY if the API said so last. An API that does not
        answer is no news, and API_SILENT in the end: nobody knows how the node is."""
        named = returning.named
        while True:
            silence = ""
            try:
                version = await self._api.node_ready(returning.node)
            except Unavailable as error:
                version, silence = None, error.message
            if version is not None:
                return Kubelet(version=version)
            if datetime.now(UTC) >= returning.until:
                after = "after its machine was restarted"
                if silence:
                    what = f"it is not known whether node {named} is Ready {after}: {silence}"
                    raise Overdue(what, subject=named, reason="API_SILENT")
                what = f"node {named} is not Ready again {after}"
                raise Overdue(what, subject=named, reason="NODE_NOT_READY")
            await asyncio.sleep(RETURN_SECONDS)

    @activity.defn(name="kubernetes.label")
    async def label(self, node: Node) -> None:
        """Safe to repeat: set, not added."""
        await self._api.label(node)

    @activity.defn(name="kubernetes.cordon")
    async def cordon(self, node: Node) -> None:
        """Safe to repeat. No such node is success."""
        await self._api.cordon(node)

    @activity.defn(name="kubernetes.uncordon")
    async def uncordon(self, node: Node) -> None:
        """Safe to repeat. No such node is success."""
        await self._api.uncordon(node)

    @activity.defn(name="kubernetes.drain")
    async def drain(self, draining: Draining) -> None:
        """Safe to repeat: only pods that are still there are asked to leave. It names those that
        stay and what holds them: as Unavailable while there is time, and in the end as Overdue."""
        round_began, pause = monotonic(), ASK_AGAIN_SECONDS
        while left := await self._left(draining):
            named = ", ".join(left[:MOST_NAMED])
            more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
            pods = several(len(left), "pod is", "pods are")
            waiting = f"{pods} still on {draining.named}: {named}{more}"
            if datetime.now(UTC) >= _until(draining):
                raise Overdue(waiting, subject=draining.named, reason="DRAIN_OVERDUE")
            if monotonic() - round_began > ROUND_SECONDS:
                raise Unavailable(waiting, subject=draining.named, reason="DRAIN_BLOCKED")
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_SECONDS)

    async def _left(self, draining: Draining) -> tuple[str, ...]:
        """The pods that are still there. An API that does not answer is waited for as long."""
        try:
            return await self._api.evict(draining.node)
        except Unavailable as error:
            if datetime.now(UTC) < _until(draining):
                raise
            raise Overdue(error.message, subject=draining.named, reason="DRAIN_OVERDUE") from error

    @activity.defn(name="kubernetes.clear")
    async def clear(self, draining: Draining) -> None:
        """Safe to repeat. Close the node and ask its pods to leave for as long as they are given:
        an undo by courtesy, since the node goes in any case."""
        await self._api.cordon(draining.node)
        while await self._api.evict(draining.node):
            if datetime.now(UTC) >= _until(draining):
                return
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    @activity.defn(name="kubernetes.delete_node")
    async def delete_node(self, node: Node) -> None:
        """Safe to repeat: no such node is success."""
        await self._api.delete_node(node)


def _until(draining: Draining) -> datetime:
    """When the pods' time is up. It runs from the first attempt on, whoever makes the present one;
    that it is not told beforehand keeps a pause before the drain out of it, and a time in which
    nobody serves the queue."""
    return began() + timedelta(seconds=draining.seconds)
