"""Care of what is to run: which word of the controller leads to which work, and what is said of it.

The words are states. A request is taken up unless the same thing is being worked on; what is asked
for meanwhile is taken up afterwards, if it is something else, and only what was asked for last is
said to be done. Work that is under way and of which nothing has been said was begun before a
restart, and is gone on with: platforms complete what is there in part."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import structlog

from agent.crm.names import spoken
from agent.crm.platform import AppOrder, Platform
from agent.crm.replica import Replica, ident
from agent.crm.reports import Reports
from domain.errors import DomainError, Failed
from domain.health_errors import of_work
from protos.gen.edge import common_pb2 as states
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstRuntime
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.common_pb2 import TrackedState
from protos.gen.edge.flavor_pb2 import Flavor

VM = "vm"
"""The deployment that needs no cluster."""

log = structlog.get_logger()

if TYPE_CHECKING:
    State: TypeAlias = TrackedState.ValueType
else:
    State = int

Verb: TypeAlias = Callable[[Any], Awaitable[Sequence[str]]]


class Work(NamedTuple):
    """What a request asks for, and what is said of it."""

    verb: str
    under_way: State | None
    """None: nobody waits for it, so nothing is said of it before it is done."""
    done: State | None
    """None: there is nothing any more."""
    failed: State | None


WORKS: dict[State, Work] = {
    states.CREATE_REQUESTED: Work("create", states.CREATING, states.READY, states.CREATE_ERROR),
    states.UPDATE_REQUESTED: Work("update", states.UPDATING, states.READY, states.UPDATE_ERROR),
    states.DELETE_REQUESTED: Work("delete", states.DELETING, None, states.DELETE_ERROR),
    # A controller that does not ask again after a restart waits for this one.
    states.DELETING: Work("delete", states.DELETING, None, states.DELETE_ERROR),
}

RESTORE_SECONDS = 60.0
"""Between two tries to take a change back that failed: what was begun of it may go on a while."""

RESUMED: dict[State, State] = {
    states.CREATING: states.CREATE_REQUESTED,
    states.UPDATING: states.UPDATE_REQUESTED,
}
"""What an earlier start had begun, and as what it is taken up again."""

STRAY: dict[State, State] = {
    states.CREATING: states.CREATE_ERROR,
    states.UPDATING: states.UPDATE_ERROR,
}
"""Work that is said to be under way and has ended here, or is none of ours; and what it came to."""

MAKING = {states.CREATE_REQUESTED, states.CREATING}
WANTED = {*MAKING, states.UPDATE_REQUESTED, states.UPDATING, states.READY}
"""In these an instance is to be as it is described."""

GOING = {states.DELETE_REQUESTED, states.DELETING}
"""In these it has been taken away by whoever says nothing of it any more. In all others it may be
there, though one who has been started anew has never said so."""

ERRORS = frozenset({states.CREATE_ERROR, states.UPDATE_ERROR, states.DELETE_ERROR})


class Mishaps(Protocol):
    """What goes wrong on purpose."""

    async def meet(self, call: str) -> bool:
        """Something is about to be done: wait, or fail, as planned. False: do not do it."""


class NoMishaps:
    async def meet(self, call: str) -> bool:  # noqa: ARG002 (the promise's signature)
        return True


class Kind(NamedTuple):
    """What clusters and apps have in common, and how they differ."""

    name: str
    info: Any
    """The message by which something is said of one."""
    verbs: dict[str, Verb]
    """What can be done, by name. What cannot be is never answered."""
    shape: Callable[[Any], Any]
    """What of an instance shows on the platform."""
    reshape: str
    """The verb that gives what is there another shape."""
    clear: Verb
    """Deletes what is left of one, whatever else is gone by then."""


class Job(NamedTuple):
    """Work on an instance."""

    task: asyncio.Task[None]
    instance: Any


class Care:
    """Care of all instances of a kind."""

    def __init__(
        self,
        kind: Kind,
        reports: Reports,
        mishaps: Mishaps,
        free: Callable[[Any], Awaitable[None]],
    ) -> None:
        """`free` waits until nothing is being removed that is called as an instance will be."""
        self._kind = kind
        self._reports = reports
        self._mishaps = mishaps
        self._free = free
        self._wanted: dict[bytes, Any] = {}
        self._working: dict[bytes, Job] = {}
        self._later: dict[bytes, asyncio.TimerHandle] = {}

    @property
    def busy_with(self) -> list[Any]:
        """What is being made, changed or taken away."""
        return [job.instance for job in self._working.values()]

    def is_busy(self, instance: Any) -> bool:
        return ident(instance.key) in self._working

    def told(self, instance: Any) -> None:
        """An instance is wanted to be as it says."""
        key = ident(instance.key)
        self._wanted[key] = instance
        if key not in self._working:
            self._take_up(instance)

    def gone(self, instance: Any) -> None:
        """Nobody wants an instance any more, nor what may have become of it."""
        key = ident(instance.key)
        self._wanted.pop(key, None)
        job = self._working.pop(key, None)
        if job is not None:
            job.task.cancel()
        if job or self._said(instance) is not None or instance.state not in GOING:
            self._begin(instance, partial(self._clear_away, instance, job and job.task))

    def keep_only(self, there: Collection[bytes]) -> None:
        """All others are gone. Who was away when they went was not told."""
        for key in self._wanted.keys() - set(there):
            self.gone(self._wanted[key])

    async def close(self) -> None:
        """Leave off. What has been begun is taken up again after the next start."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        for task in (working := [job.task for job in self._working.values()]):
            task.cancel()
        if working:
            await asyncio.wait(working)
        self._working.clear()

    def _take_up(self, instance: Any) -> None:
        said = self._said(instance)
        asked = instance.state if said is not None else RESUMED.get(instance.state, instance.state)
        work = WORKS.get(asked)
        if work is not None and work.verb in self._kind.verbs:
            self._begin(instance, partial(self._carry_out, instance, work))
        elif instance.state in STRAY and said not in (instance.state, states.READY):
            word = TrackedState.Name(instance.state)
            text = f"the controller says {word}, which the resource manager knows nothing of"
            self._say(instance, STRAY[instance.state], error=text)
        elif instance.state == states.READY and said == states.UPDATE_ERROR:
            self._begin(instance, partial(self._restore, instance))

    def _begin(self, instance: Any, work: Callable[[], Awaitable[None]]) -> None:
        key = ident(instance.key)
        self._working[key] = Job(asyncio.create_task(self._work(key, work)), instance)

    async def _work(self, key: bytes, work: Callable[[], Awaitable[None]]) -> None:
        """Do it, and be done in the same moment in which it is: a word that comes later begins
        something new."""
        try:
            await work()
        except Exception:
            log.exception("work ended in disorder")
        finally:
            job = self._working.get(key)
            if job is not None and job.task is asyncio.current_task():
                del self._working[key]

    async def _carry_out(self, instance: Any, work: Work) -> None:
        """Do what is asked for; then what has been asked for meanwhile, unless it is the same."""
        while True:
            done = await self._once(instance, work)
            wanted = self._wanted.get(ident(instance.key))
            after = None if wanted is None else self._after(instance, work, wanted, done=done)
            if after is None:
                return
            instance, work = wanted, after

    def _after(self, instance: Any, work: Work, wanted: Any, *, done: bool) -> Work | None:
        """What is to be done next."""
        if self._overtaken(instance, work):
            verb = work.verb if work.verb == "create" and not done else self._kind.reshape
            making = wanted.state in MAKING
            like = WORKS[states.CREATE_REQUESTED if making else states.UPDATE_REQUESTED]
            return like._replace(verb=verb)
        after = WORKS.get(wanted.state)
        if wanted.state == instance.state or after is None:
            return None
        if after.verb == work.verb and (done or work.failed is not None):
            return None
        return after if after.verb in self._kind.verbs else None

    def _overtaken(self, instance: Any, work: Work) -> bool:
        """Whether it is wanted in another shape by now. One that was given up and asked for again
        in between may be told of only once."""
        wanted = self._wanted.get(ident(instance.key))
        if wanted is None or wanted.state not in WANTED or work.done is None:
            return False
        return bool(self._kind.shape(wanted) != self._kind.shape(instance))

    async def _once(self, instance: Any, work: Work) -> bool:
        """Do it, and say what came of it, unless something else is wanted by then. Whether it is
        done."""
        call = f"{work.verb} {self._kind.name} {spoken(instance)}"
        if not await self._mishaps.meet(f"hear {call}"):
            return False
        if work.under_way is not None:
            self._say(instance, work.under_way)
        try:
            await self._free(instance)
            await self._mishaps.meet(call)
            containers = await self._kind.verbs[work.verb](instance)
        except DomainError as error:
            log.warning("work failed", work=call, error=error.message)
            self._say_failed(instance, work, error.message)
            return False
        except Exception:
            log.exception("work went wrong", work=call)
            self._say_failed(instance, work, "internal error")
            return False
        log.info("work done", work=call)
        if work.done is None:
            self._reports.drop(self._kind.info, instance.key)
        elif not self._overtaken(instance, work):
            self._say(instance, work.done, containers=containers)
        return True

    async def _clear_away(self, instance: Any, before: asyncio.Task[None] | None) -> None:
        """Delete what is left of an instance that has been given up."""
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._free(instance)
            await self._kind.clear(instance)
        except DomainError as error:
            log.warning("left behind", instance=spoken(instance), error=error.message)
        self._reports.drop(self._kind.info, instance.key)
        wanted = self._wanted.get(ident(instance.key))  # it may have been asked for anew
        if wanted is not None and (work := WORKS.get(wanted.state)) is not None:
            await self._carry_out(wanted, work)

    async def _restore(self, instance: Any) -> None:
        """Give an instance again the shape that it is described in: a change that failed was taken
        back by the controller, and may have gone on, or go on, on the platform."""
        key = ident(instance.key)
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        await self._carry_out(instance, Work(self._kind.reshape, None, states.READY, None))
        if self._said(instance) == states.UPDATE_ERROR:
            again = partial(self._restore_again, key)
            self._later[key] = asyncio.get_running_loop().call_later(RESTORE_SECONDS, again)

    def _restore_again(self, key: bytes) -> None:
        self._later.pop(key, None)
        wanted = self._wanted.get(key)
        if wanted is not None and wanted.state == states.READY and key not in self._working:
            self._take_up(wanted)

    def _said(self, instance: Any) -> State | None:
        report = self._reports.get(self._kind.info, instance.key)
        return None if report is None else report.state

    def _say_failed(self, instance: Any, work: Work, why: str) -> None:
        if work.failed is not None and not self._overtaken(instance, work):
            error = f"{work.verb.capitalize()} failed: {why}"
            self._say(instance, work.failed, error=error)

    def _say(
        self, instance: Any, state: State, *, error: str = "", containers: Sequence[str] = ()
    ) -> None:
        """Errors add up until something goes well."""
        before = self._reports.get(self._kind.info, instance.key)
        report: Any = self._kind.info(key=instance.key, state=state)
        if error:
            report.errors.extend([*of_work(before.errors if before else ()), error])
        if containers:
            report.runtime_info.CopyFrom(AppInstRuntime(container_ids=containers))
        self._reports.put(report)


def clusters(platform: Platform) -> Kind:
    async def create(cluster: ClusterInst) -> Sequence[str]:
        await platform.create_cluster(cluster)
        return ()

    async def update(cluster: ClusterInst) -> Sequence[str]:
        await platform.update_cluster(cluster)
        return ()

    async def delete(cluster: ClusterInst) -> Sequence[str]:
        await platform.delete_cluster(cluster)
        return ()

    verbs: dict[str, Verb] = {"create": create, "update": update, "delete": delete}
    return Kind("cluster", ClusterInstInfo, verbs, attrgetter("num_nodes"), "update", delete)


def apps(platform: Platform, replica: Replica) -> Kind:
    async def create(instance: AppInst) -> Sequence[str]:
        order = ordered(replica, instance)
        if not order.flavor.key.name:
            raise Failed(f"Flavor {instance.flavor.name} not found")
        try:
            return await platform.create_app(order)
        except DomainError:
            await platform.delete_app(order)
            raise

    async def delete(instance: AppInst) -> Sequence[str]:
        await platform.delete_app(ordered(replica, instance))
        return ()

    async def replace(instance: AppInst) -> Sequence[str]:
        await delete(instance)
        return await create(instance)

    async def clear(instance: AppInst) -> Sequence[str]:
        """Its cluster may have been told of first, since clusters are."""
        await platform.delete_app(ordered(replica, instance, needs_cluster=False))
        return ()

    verbs: dict[str, Verb] = {"create": create, "delete": delete, "replace": replace}
    shape = attrgetter("flavor", "mapped_ports")
    return Kind("app", AppInstInfo, verbs, shape, "replace", clear)


def ordered(replica: Replica, instance: AppInst, *, needs_cluster: bool = True) -> AppOrder:
    """An instance with what the controller has told of what it needs. Failed if that is not
    enough."""
    app = replica.app(instance.key.app_key)
    if app is None:
        raise Failed(f"App {instance.key.app_key.name} not found")
    cluster = replica.cluster(instance.key.cluster_inst_key)
    if cluster is None and needs_cluster and app.deployment != VM:
        name = instance.key.cluster_inst_key.cluster_key.name
        raise Failed(f"Cluster instance {name} not found")
    flavor = replica.flavor(instance.flavor) or Flavor()
    return AppOrder(instance=instance, app=app, flavor=flavor, cluster=cluster)
