"""Manifests in clusters: applied by the server, object by object, and taken away again.

What is applied is first written down in the cluster itself, under the name that it is known by, and
crossed out last: so what is there in part can be found and taken away, whoever applied it."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import yaml
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, KubeConfig, codecs
from lightkube.core.exceptions import ApiError, LoadResourceError
from lightkube.core.resource import GlobalResource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod

from agent.crm.platform import LONGEST, RUN_SECONDS, Output, Standing
from agent.crm.restarts import Restarts
from domain.errors import Failed

FIELD_MANAGER = "windlass-crm"
NOTES = "kube-system"
"""The namespace where it is written down."""

NOTED: dict[str, Any] = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
MANIFEST = "manifest"

TIMEOUT = httpx2.Timeout(10, connect=3)
TRIES = 5
NOT_FOUND = 404

TOLD = 8
"""Of the containers that there are, so many are named."""

AILING = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"}
)
"""Why a container waits that does not come to run by itself."""

BYTES = 4
"""A character may have so many."""

READY_TRIES = 150
"""So many looks a deployment gets to be available."""


class Manifests:
    def __init__(self, look_seconds: float, run_seconds: float = RUN_SECONDS) -> None:
        """A command may take so long."""
        self._look_seconds, self._run_seconds = look_seconds, run_seconds
        self._restarts = Restarts()

    async def apply(self, kubeconfig: str, name: str, manifest: str) -> Sequence[str]:
        """Make a cluster hold what a manifest says, wait until it is available, and tell the pods.
        What others changed in it is taken back, and what an earlier manifest of that name said."""
        objects = _objects(manifest)
        async with _client(kubeconfig) as client:
            earlier = await self._noted(client, name)
            if earlier not in (None, manifest):
                await self._take_away(client, earlier)
            note = ConfigMap(
                metadata=ObjectMeta(name=name, namespace=NOTES, labels=NOTED),
                data={MANIFEST: manifest},
            )
            await self._insist(f"note {name}", partial(client.apply, note, force=True))
            for each in objects:
                await self._insist(f"apply {_name(each)}", partial(client.apply, each, force=True))
            pods: list[str] = []
            for each in objects:
                if isinstance(each, Deployment):
                    pods += await self._available(client, each)
            return pods

    async def delete(self, kubeconfig: str, name: str) -> None:
        """Take away what was applied under a name. There being nothing is success."""
        async with _client(kubeconfig) as client:
            manifest = await self._noted(client, name)
            if manifest is None:
                return
            await self._take_away(client, manifest)
            note = ConfigMap(metadata=ObjectMeta(name=name, namespace=NOTES))
            await self._insist(f"forget {name}", partial(_delete, client, note))

    async def run(
        self, kubeconfig: str, name: str, container: str, command: Sequence[str]
    ) -> Output:
        """Run a command in POD or POD/CONTAINER of what was applied under a name; in the first, if
        none is named. Asked for once: a command that is repeated runs twice."""
        async with _client(kubeconfig) as client:
            manifest = await self._noted(client, name)
            pods: list[Pod] = []
            for each in _objects(manifest or ""):
                if isinstance(each, Deployment):
                    pods += await self._insist("list pods", partial(_pods, client, each))
            return await _run(client, *_chosen(pods, container), command, self._run_seconds)

    async def inspect(self, kubeconfig: str, manifests: Mapping[str, str]) -> dict[str, Standing]:
        """How what was applied stands, of each name by its manifest. Failed if the API does not
        answer."""
        async with _client(kubeconfig) as client:
            try:
                return {
                    name: await self._standing(client, name, manifest)
                    for name, manifest in manifests.items()
                }
            except ApiError as error:
                raise Failed(f"Kubernetes refused to tell of it: {error}") from error
            except httpx2.TransportError as error:
                raise Failed(f"Kubernetes does not answer: {type(error).__name__}") from error

    async def _standing(self, client: AsyncClient, name: str, manifest: str) -> Standing:
        faults: list[str] = []
        containers: list[str] = []
        for each in _objects(manifest):
            if isinstance(each, Deployment):
                found = await _deployment(client, each)
                if found is None:
                    faults.append(f"does not run: {_name(each)} is gone")
                    continue
                faults += _lacking(found)
                pods = await _pods(client, found)
                containers += [str(pod.metadata.name) for pod in pods if pod.metadata]
                faults += [fault for pod in pods for fault in self._ailing(name, pod)]
        return Standing(tuple(faults), tuple(containers))

    def _ailing(self, name: str, pod: Any) -> Iterator[str]:
        for each in (pod.status and pod.status.containerStatuses) or ():
            called = f"{pod.metadata.name}/{each.name}"
            waits = each.state.waiting if each.state else None
            loops = self._restarts.is_loop(f"{name}/{called}", each.restartCount or 0)
            anew = f"started anew {each.restartCount or 0} times"
            if waits and waits.reason in AILING:
                yield f"has container {called} in {waits.reason}, {anew}"
            elif loops:
                yield f"has container {called}, {anew} by now"

    async def all(self, kubeconfig: str) -> Sequence[str]:
        """The names under which something was applied."""
        async with _client(kubeconfig) as client:
            return await self._insist("list what was applied", partial(_names, client))  # type: ignore[no-any-return]

    async def _noted(self, client: AsyncClient, name: str) -> str | None:
        """The manifest that was applied under a name."""
        found = await self._insist(f"look for {name}", partial(_note, client, name))
        return None if found is None else str((found.data or {}).get(MANIFEST, ""))

    async def _take_away(self, client: AsyncClient, manifest: str) -> None:
        """The last first. What is not there is no matter."""
        for each in reversed(_objects(manifest)):
            await self._insist(f"delete {_name(each)}", partial(_delete, client, each))

    async def _available(self, client: AsyncClient, wanted: Any) -> list[str]:
        """The pods of a deployment, once they are all there and ready."""
        name, namespace = wanted.metadata.name, wanted.metadata.namespace
        for _ in range(READY_TRIES):
            found: Any = await self._insist(
                f"get {_name(wanted)}",
                partial(client.get, Deployment, name, namespace=namespace),
            )
            status = found.status
            if status and (status.availableReplicas or 0) >= (found.spec.replicas or 0):
                pods = await self._insist("list pods", partial(_pods, client, found))
                return [str(pod.metadata.name) for pod in pods]
            await asyncio.sleep(self._look_seconds)
        raise Failed(f"deployment {name} does not become available")

    async def _insist(self, what: str, send: Callable[[], Awaitable[Any]]) -> Any:
        """Ask again while the API does not answer, which new ones do now and then."""
        for attempt in range(1, TRIES + 1):
            try:
                return await send()
            except ApiError as error:
                if error.status.code is None or error.status.code < 500 or attempt == TRIES:
                    raise Failed(f"Kubernetes refused to {what}: {error}") from error
            except httpx2.TransportError as error:
                if attempt == TRIES:
                    raise Failed(f"Kubernetes did not {what}: {type(error).__name__}") from error
            await asyncio.sleep(self._look_seconds)
        raise AssertionError("the last attempt returns or raises")


@asynccontextmanager
async def _client(kubeconfig: str) -> AsyncIterator[AsyncClient]:
    if not kubeconfig:
        raise Failed("the cluster has no kubeconfig yet")
    client = await asyncio.to_thread(_opened, kubeconfig)
    try:
        yield client
    finally:
        await client.close()


def _opened(kubeconfig: str) -> AsyncClient:
    config = KubeConfig.from_dict(yaml.safe_load(kubeconfig))
    return AsyncClient(config, field_manager=FIELD_MANAGER, timeout=TIMEOUT, trust_env=False)


def _objects(manifest: str) -> list[Any]:
    try:
        return list(codecs.load_all_yaml(manifest, create_resources_for_crds=True))
    except (yaml.YAMLError, LoadResourceError, AttributeError, TypeError) as error:
        raise Failed(f"the manifest cannot be applied: {error}") from error


async def _names(client: AsyncClient) -> list[str]:
    found = client.list(ConfigMap, namespace=NOTES, labels=NOTED)
    return [str(each.metadata.name) async for each in found if each.metadata]


async def _note(client: AsyncClient, name: str) -> ConfigMap | None:
    try:
        return await client.get(ConfigMap, name, namespace=NOTES)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
        return None


async def _pods(client: AsyncClient, deployment: Any) -> list[Pod]:
    """Those that are not being deleted."""
    namespace = deployment.metadata.namespace
    labels = deployment.spec.selector.matchLabels or {}
    return [
        pod
        async for pod in client.list(Pod, namespace=namespace, labels=labels)
        if pod.metadata and not pod.metadata.deletionTimestamp
    ]


async def _deployment(client: AsyncClient, wanted: Any) -> Deployment | None:
    name, namespace = wanted.metadata.name, wanted.metadata.namespace
    try:
        return await client.get(Deployment, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
        return None


def _lacking(found: Any) -> list[str]:
    """What is said of a deployment that is not all there."""
    available = (found.status and found.status.availableReplicas) or 0
    wanted = found.spec.replicas or 0
    if available >= max(wanted, 1):
        return []
    return [f"has {available} of {max(wanted, 1)} replicas of deployment {found.metadata.name}"]


def _chosen(pods: Sequence[Any], wanted: str) -> tuple[Any, str]:
    """The pod that is meant, and which container of it. A pod's first, unless one is named."""
    known = [
        (pod, container.name)
        for pod in pods
        if pod.status and pod.status.phase == "Running"
        for container in pod.spec.containers
    ]
    if not known:
        raise Failed("no pod of this app runs", do="look at kubectl get pods in its cluster")
    for pod, container in known:
        name = pod.metadata.name
        if wanted in ("", name, f"{name}/{container}"):
            return pod, container
    names = ", ".join(f"{pod.metadata.name}/{container}" for pod, container in known[:TOLD])
    raise Failed(f"there is no container {wanted}", do=f"say {names}, or none")


async def _run(
    client: AsyncClient, pod: Any, container: str, command: Sequence[str], seconds: float
) -> Output:
    out, err = Kept(), Kept()
    called = f"{pod.metadata.name}/{container}"
    try:
        ended = await client.exec(
            pod.metadata.name,
            namespace=pod.metadata.namespace,
            container=container,
            command=command,
            stdout=out,
            stderr=err,
            timeout=seconds,
        )
    except httpx2.ReadTimeout as error:
        why, do = f"was not done within {seconds:g} s", "run something that is done sooner"
        raise Failed(f"the command {why}", do=do) from error
    except (ApiError, httpx2.TransportError, HTTPXWSException) as error:
        do = "look at kubectl describe pod in its cluster"
        raise Failed(f"{called} ran no command: {_why(error)}", do=do) from error
    return Output(ended.exit_code, out.text(), err.text())


def _why(error: Exception) -> str:
    if isinstance(error, WebSocketUpgradeError):
        return f"Kubernetes answered {error.response.status_code}"
    return str(error) or type(error).__name__


class Kept(io.BytesIO):
    """What a command writes, as much as may be told of it and a little more, by which it shows that
    there was more."""

    def write(self, data: Any) -> int:
        room = max((LONGEST + 1) * BYTES - self.tell(), 0)
        super().write(data[:room])
        return len(data)

    def text(self) -> str:
        return self.getvalue().decode(errors="replace")


async def _delete(client: AsyncClient, each: Any) -> None:
    name = each.metadata.name
    try:
        if isinstance(each, GlobalResource):
            await client.delete(type(each), name)
        else:
            await client.delete(type(each), name, namespace=each.metadata.namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise


def _name(each: Any) -> str:
    return f"{type(each).__name__.lower()} {each.metadata.name}"
