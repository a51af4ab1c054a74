"""Manifests in clusters: applied by the server, object by object, and taken away again.

What is applied is first written down in the cluster itself, under the name that it is known by, and
crossed out last: so what is there in part can be found and taken away, whoever applied it.

Names of objects are the contract's, or the developer's, and two apps may want the same one. So
every object, and every pod made from it, carries the instance that holds it. An object that another
holds is neither applied nor deleted, and nobody's manifest may say who holds it."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import httpx2
import structlog
import yaml
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.core.resource import GlobalResource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod

from agent.crm.objects import (
    FIELD_MANAGER,
    HOLDER,
    NOTED,
    NOTES,
    RESERVED,
    Applied,
    describe,
    hold,
    holder_of,
    is_held,
    read,
)
from agent.crm.platform import LONGEST, RUN_SECONDS, Output
from domain.errors import Conflict, Failed
from domain.ownership import foreign

MARKED = f"{RESERVED}marked"
"""The annotation of a note whose objects say who holds them. Those of releases up to 0.1 do not."""

MANIFEST = "manifest"

TIMEOUT = httpx2.Timeout(10, connect=3)
TRIES = 5
NOT_FOUND = 404

TOLD = 8
"""Of the containers that there are, so many are named."""

BYTES = 4
"""A character may have so many."""

READY_TRIES = 150
"""So many looks a deployment gets to be available."""


log = structlog.get_logger()


class Note(NamedTuple):
    """Where it is noted what was applied for an instance."""

    name: str
    owner: str
    earlier: str = ""
    """A note of that name which says no owner is the instance's, too. Empty: there is none."""


class Manifests:
    def __init__(self, look_seconds: float, run_seconds: float = RUN_SECONDS) -> None:
        """A command may take so long."""
        self._look_seconds, self._run_seconds = look_seconds, run_seconds
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One at a time changes what is in a cluster, so that nobody applies what another begins
        to hold."""

    async def apply(self, kubeconfig: str, note: Note, manifest: str) -> Sequence[str]:
        """Make a cluster hold what a manifest says, wait until it is available, and tell the pods.
        What others changed in it is taken back, and what an earlier manifest of that instance said.
        Conflict: something of it is held by another."""
        objects = read(manifest)
        for each in objects:
            hold(each, note.owner)
        async with connected(kubeconfig) as client:
            async with self._turns.setdefault(kubeconfig, asyncio.Lock()):
                await self._put(client, note, manifest, objects)
            pods: list[str] = []
            for each in objects:
                if isinstance(each, Deployment):
                    pods += await self._available(client, each, note.owner)
            return pods

    async def _put(
        self, client: AsyncClient, note: Note, manifest: str, objects: Sequence[Any]
    ) -> None:
        before = await self._applied(client, note)
        for each in objects:
            await self._refuse_held(client, each, note.owner, before)
        if before is not None and before.manifest != manifest:
            await self._take_away(client, note.owner, before)
        name = before.note if before else note.name
        noted = ConfigMap(
            metadata=ObjectMeta(
                name=name,
                namespace=NOTES,
                labels=NOTED,
                annotations={HOLDER: note.owner, MARKED: "true"},
            ),
            data={MANIFEST: manifest},
        )
        await self._insist(f"note {name}", partial(client.apply, noted, force=True))
        for each in objects:
            await self._insist(f"apply {describe(each)}", partial(client.apply, each, force=True))

    async def delete(self, kubeconfig: str, note: Note) -> None:
        """Take away what was applied for an instance. There being nothing is success."""
        async with (
            connected(kubeconfig) as client,
            self._turns.setdefault(kubeconfig, asyncio.Lock()),
        ):
            applied = await self._applied(client, note)
            if applied is None:
                return
            await self._take_away(client, note.owner, applied)
            noted = ConfigMap(metadata=ObjectMeta(name=applied.note, namespace=NOTES))
            await self._insist(f"forget {applied.note}", partial(_delete, client, noted))

    async def run(
        self, kubeconfig: str, note: Note, container: str, command: Sequence[str]
    ) -> Output:
        """Run a command in POD or POD/CONTAINER of what was applied for an instance; in the first,
        if none is named. Asked for once: a command that is repeated runs twice."""
        async with connected(kubeconfig) as client:
            applied = await self._applied(client, note)
            pods: list[Pod] = []
            for each in read(applied.manifest if applied else ""):
                if isinstance(each, Deployment):
                    holder = note.owner if applied and applied.marked else ""
                    pods += await self._insist("list pods", partial(pods_of, client, each, holder))
            return await _run(client, *_chosen(pods, container), command, self._run_seconds)

    async def all(self, kubeconfig: str) -> Sequence[Note]:
        """For whom something was applied. An owner is empty where an earlier release applied it."""
        async with connected(kubeconfig) as client:
            return await self._insist("list what was applied", partial(_notes, client))  # type: ignore[no-any-return]

    async def claim(self, kubeconfig: str, note: Note) -> None:
        """Record the owner of what an earlier release applied."""
        async with connected(kubeconfig) as client:
            noted = await self._insist(
                f"look for {note.name}", partial(_get, client, ConfigMap, note.name)
            )
            if noted is None or holder_of(noted):
                return
            metadata = ObjectMeta(
                name=note.name, namespace=NOTES, labels=NOTED, annotations={HOLDER: note.owner}
            )
            owned = ConfigMap(metadata=metadata, data=noted.data)
            send = partial(client.apply, owned, force=True)
            await self._insist(f"note the owner of {note.name}", send)

    async def _applied(self, client: AsyncClient, note: Note) -> Applied | None:
        """What was applied for an instance. Conflict: what is noted there is another's."""
        for name in filter(None, (note.name, note.earlier)):
            found = await self._insist(f"look for {name}", partial(_get, client, ConfigMap, name))
            if found is None:
                continue
            annotations = found.metadata.annotations or {}
            holder = annotations.get(HOLDER, "")
            if holder != note.owner and (holder or name != note.earlier):
                raise foreign(f"the note {name} in the cluster")
            manifest = str((found.data or {}).get(MANIFEST, ""))
            return Applied(name, manifest, MARKED in annotations)
        return None

    async def _refuse_held(
        self, client: AsyncClient, each: Any, owner: str, before: Applied | None
    ) -> None:
        """Conflict if an object is there that an instance does not hold."""
        name = describe(each)
        found = await self._insist(f"look for {name}", partial(_same, client, each))
        if found is None or is_held(found, owner, before):
            return
        holder = holder_of(found)
        by = "another app instance" if holder else "somebody else"
        raise Conflict(
            f"{name} is there already and belongs to {by}",
            subject=name,
            reason="OBJECT_HELD",
            do="delete that one first, use another cluster, or name the object otherwise",
        )

    async def _take_away(self, client: AsyncClient, owner: str, applied: Applied) -> None:
        """The last first. What is not there is no matter, and what another holds is left alone."""
        for each in reversed(read(applied.manifest)):
            name = describe(each)
            found = await self._insist(f"look for {name}", partial(_same, client, each))
            if found is None:
                continue
            if not is_held(found, owner, applied):
                log.warning("object of another owner left alone", object=name)
                continue
            await self._insist(f"delete {name}", partial(_delete, client, each))

    async def _available(self, client: AsyncClient, wanted: Any, owner: str) -> list[str]:
        """The pods of a deployment, once they are all there and ready."""
        name, namespace = wanted.metadata.name, wanted.metadata.namespace
        for _ in range(READY_TRIES):
            found: Any = await self._insist(
                f"get {describe(wanted)}",
                partial(client.get, Deployment, name, namespace=namespace),
            )
            status = found.status
            if status and (status.availableReplicas or 0) >= (found.spec.replicas or 0):
                pods = await self._insist("list pods", partial(pods_of, client, found, owner))
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
async def connected(kubeconfig: str) -> AsyncIterator[AsyncClient]:
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


async def _notes(client: AsyncClient) -> list[Note]:
    found = client.list(ConfigMap, namespace=NOTES, labels=NOTED)
    return [Note(str(each.metadata.name), holder_of(each)) async for each in found if each.metadata]


async def _same(client: AsyncClient, each: Any) -> Any:
    """An object as it is in the cluster. None: it is not there."""
    kind, metadata = type(each), each.metadata
    namespace = None if issubclass(kind, GlobalResource) else metadata.namespace
    return await _get(client, kind, metadata.name, namespace=namespace)


async def _get(client: AsyncClient, kind: Any, name: str, *, namespace: str | None = NOTES) -> Any:
    try:
        if issubclass(kind, GlobalResource):
            return await client.get(kind, name)
        return await client.get(kind, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
        return None


async def pods_of(client: AsyncClient, deployment: Any, holder: str) -> list[Pod]:
    """Those of a deployment that are not being deleted and that an instance holds. Labels alone do
    not say so: anybody's manifest may choose the labels of another's pods."""
    namespace = deployment.metadata.namespace
    labels = deployment.spec.selector.matchLabels or {}
    return [
        pod
        async for pod in client.list(Pod, namespace=namespace, labels=labels)
        if pod.metadata and not pod.metadata.deletionTimestamp and holder_of(pod) == holder
    ]


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
