"""Records one run of every workflow and branch, for the suite to replay: `make histories`.

A recorded history is a promise: what was begun by an older worker is finished by a newer one. A
change that breaks one needs `workflow.patched`, or a workflow of another name. So what has been
recorded stays, and only what is missing is recorded."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from domain import devserver
from domain.cluster import Phase
from domain.errors import Failed
from domain.operation import Ask, OperationId, StepKey, StepState
from domain.patience import SHORT
from domain.tracking import Phase as Tracked
from domain.wishes import DELETE
from sim.world import MemoryWorld
from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.conftest import BINARIES
from tests.histories.on_nodes import ON_NODES
from tests.store.desk import until
from tests.workflows.edge import does, site
from tests.workflows.harbour import harbour, worker
from tests.workflows.test_repairs import CASES, broken
from tests.workflows.yard import Trouble, Yard, yard
from workflows.check_storage import CheckStorage
from workflows.survey import Survey
from workflows.sweep import Sweep

HOME = Path(__file__).parent

OLD, NEW = "1.31.4", "1.32.1"
"""From which version to which upgrades go."""

Story = Callable[[Yard], Awaitable[None]]


async def created(place: Yard, control_planes: int = 1) -> None:
    await place.create(control_planes)


async def created_and_deleted(place: Yard) -> None:
    await place.create()
    await place.delete()


async def with_storage(place: Yard) -> None:
    await place.carry_out(await place.ask(storage=True))
    await place.delete(data=DELETE)


async def storage_refused(place: Yard) -> None:
    sour = "storage.ensure_identity"
    place.trouble.fail = lambda key: Failed("recorded") if key.verb == sour else None
    await place.carry_out(await place.ask(storage=True))


async def cancelled(place: Yard) -> None:
    asked = await place.ask()
    place.trouble.at, place.trouble.then = 12, partial(place.cancel, asked.id)
    await place.carry_out(asked)


async def taken_over(place: Yard) -> None:
    asked = await place.ask()

    async def delete() -> None:
        await place.start((await place.ask_delete()).operation)

    place.trouble.at, place.trouble.then = 12, delete
    await place.carry_out(asked)
    for each in await place.operations.page(size=10):
        await place.finish(each.id)


async def short_of_a_worker(place: Yard) -> None:
    def fail(key: StepKey) -> Failed | None:
        return Failed("recorded") if (key.verb, key.subject[0]) == ("kubeadm.join", "w") else None

    place.trouble.fail = fail
    await place.create()


async def given_back(place: Yard) -> None:
    asked = await place.ask(control_planes=3)
    second = (await place.operations.plan(asked.id)).control_plane[1]
    sour = StepKey(verb="kubernetes.wait_node", subject=second.name)
    place.trouble.fail = lambda key: Failed("recorded") if key == sour else None
    await place.carry_out(asked)


async def grown_and_shrunk(place: Yard) -> None:
    await place.create()
    for count in (2, 0):
        if operation := await place.ask_scale("w", count):
            await place.carry_out(operation)


async def pool_added_and_deleted(place: Yard) -> None:
    await place.create()
    await place.carry_out(await place.ask_add("gpu"))
    await place.carry_out(await place.ask_drop("gpu"))


async def shrinking_cancelled(place: Yard) -> None:
    await place.create(1, 2)
    place.trouble.seen.clear()
    if operation := await place.ask_scale("w", 0):
        place.trouble.at, place.trouble.then = 3, partial(place.cancel, operation.id)
        await place.carry_out(operation)


async def growth_cancelled(place: Yard) -> None:
    await place.create()
    place.trouble.seen.clear()
    if operation := await place.ask_scale("w", 2):
        place.trouble.at, place.trouble.then = 6, partial(place.cancel, operation.id)
        await place.carry_out(operation)


async def pods_that_stay(place: Yard) -> None:
    await place.create()
    [name] = [state.slot.name for state in (await place.clusters.nodes("blue")).slots[1:]]
    place.world.pods[name] = ["default/web (held by PodDisruptionBudget web)"]
    if operation := await place.ask_scale("w", 0, drain_seconds=1):
        await place.carry_out(operation)


async def paused_and_resumed(place: Yard) -> None:
    asked = await place.ask()
    place.trouble.at, place.trouble.then = 3, partial(place.pause, asked.id)
    await place.start(asked)
    await until(lambda: rests(place, asked.id))
    await place.resume(asked.id)
    await place.finish(asked.id)


async def paused_and_cancelled(place: Yard) -> None:
    await place.create()
    place.trouble.seen.clear()
    if operation := await place.ask_scale("w", 0):
        place.trouble.at, place.trouble.then = 0, partial(place.pause, operation.id)
        await place.start(operation)
        await until(lambda: rests(place, operation.id))
        await place.cancel(operation.id)
        await place.finish(operation.id)


async def rests(place: Yard, operation: OperationId) -> bool:
    """Whether it is paused, its workflow knows, and no step is under way."""
    if not (await place.operations.get(operation)).paused_by:
        return False
    seen = await place.operations.steps(operation)
    active = [step for step in seen if step.state is StepState.ACTIVE]
    return not active and not await place.operations.unheeded()


async def upgrade_approved(place: Yard) -> None:
    await place.create(version=OLD)
    asked = await place.ask_upgrade(NEW, approve_each="pool")

    async def waits() -> bool:
        return bool((await place.operations.get(asked.id)).gate)

    await place.start(asked)
    await until(waits)
    await place.steering.approve(asked.id, "", "ann")
    await place.nudge(asked.id)
    await place.finish(asked.id)


async def let_go(place: Yard) -> None:
    """A delete that is stuck, and a forced one that leaves a machine behind."""
    await place.create()
    place.world.locked |= {metal.system_id for metal in place.world.machines}
    await place.start((await place.ask_delete()).operation)
    forced = await place.clusters.request_delete("blue", Ask(method="delete", force=True))
    await place.carry_out(forced.operation)


async def upgraded(place: Yard, control_planes: int = 1) -> None:
    await place.create(control_planes, version=OLD)
    await place.carry_out(await place.ask_upgrade(NEW))


async def upgrade_stopped(place: Yard) -> None:
    """By a worker whose pods will not leave and whose kubelet cannot be renewed."""
    await place.create(1, 2, version=OLD)
    worker = (await place.clusters.nodes("blue")).slots[1]
    place.world.stuck.add(worker.system_id)
    place.world.pods[worker.slot.name] = ["default/web (held by PodDisruptionBudget web)"]
    await place.carry_out(await place.ask_upgrade(NEW, drain_seconds=1))


async def upgrade_resumed(place: Yard) -> None:
    await upgrade_stopped(place)
    place.world.stuck.clear()
    await place.carry_out(await place.ask_upgrade(NEW, drain_seconds=1))


async def upgrade_cancelled(place: Yard, step: int) -> None:
    await place.create(version=OLD)
    place.trouble.seen.clear()
    asked = await place.ask_upgrade(NEW)
    place.trouble.at, place.trouble.then = step, partial(place.cancel, asked.id)
    await place.carry_out(asked)


async def upgrade_taken_over(place: Yard) -> None:
    await place.create(version=OLD)
    place.trouble.seen.clear()
    asked = await place.ask_upgrade(NEW)

    async def delete() -> None:
        await place.start((await place.ask_delete()).operation)

    place.trouble.at, place.trouble.then = 6, delete
    await place.carry_out(asked)
    for each in await place.operations.page(size=10):
        await place.finish(each.id)


async def first_pool(place: Yard) -> None:
    await place.create(3, 0)
    await place.carry_out(await place.ask_add("x"))


async def repaired(place: Yard, case: str) -> None:
    await place.carry_out(await broken(place, case))


async def repair_cancelled(place: Yard) -> None:
    asked = await broken(place, "control plane replaced")
    place.trouble.at, place.trouble.then = 3, partial(place.cancel, asked.id)
    await place.carry_out(asked)


async def osds_taken(place: Yard) -> None:
    await place.carry_out(await place.ask_marks(0, 2))
    await place.carry_out(await place.ask_marks(0, 2, inside=True))


async def osds_taken_cancelled(place: Yard) -> None:
    asked = await place.ask_marks(0, 2)
    place.trouble.at, place.trouble.then = 2, partial(place.cancel, asked.id)
    await place.carry_out(asked)


async def ceph_upgraded(place: Yard) -> None:
    await place.carry_out(await place.ask_ceph("19.2.3"))


async def ceph_upgrade_cancelled(place: Yard) -> None:
    asked = await place.ask_ceph("19.2.3")
    place.trouble.at, place.trouble.then = 3, partial(place.cancel, asked.id)
    await place.carry_out(asked)


async def ceph_checked(place: Yard) -> None:
    place.world.ceph.version = "18.2.4"
    await place.look()
    await place.client.execute_workflow(
        CheckStorage.run,
        "ceph",
        id=f"ceph-version-check-{uuid4()}",
        task_queue=f"{place.prefix}workflows",
    )


async def own_pool(place: Yard) -> None:
    await place.carry_out(await place.ask_pool())
    await place.carry_out(await place.ask_drop_pool())


async def swept(place: Yard) -> None:
    await place.ask()
    for flow in (Sweep, Survey):
        name = f"{flow.__name__.lower()}-{uuid4()}"
        await place.client.execute_workflow(
            flow.__name__, id=name, task_queue=f"{place.prefix}workflows"
        )


async def watched(place: Yard) -> None:
    await place.create()
    await place.monitor()
    await place.turns(Phase.RUNNING)
    worker = place.world.held_by((await place.clusters.nodes("blue")).slots[1].slot.agent_name)
    for powered, phase in ((False, Phase.DEGRADED), (True, Phase.RUNNING)):
        if worker is not None:
            worker.powered = powered
        await place.turns(phase)
    uid = (await place.clusters.get("blue")).uid
    await place.delete()
    await place.client.get_workflow_handle(f"monitor-{uid}").result()


async def swept_and_watched(place: Yard) -> None:
    await place.create()
    await place.client.execute_workflow(
        Sweep.run, id=f"sweep-{uuid4()}", task_queue=f"{place.prefix}workflows"
    )
    uid = (await place.clusters.get("blue")).uid
    await place.delete()
    await place.client.get_workflow_handle(f"monitor-{uid}").result()


async def edge_came_and_went(place: Yard) -> None:
    """An app in a cluster made for it, which grows, and goes with it."""
    async with site(place.client, place.database, place.prefix) as edge:
        made = "autocluster1"
        await edge.carry_out(await edge.create_app(cluster=made))
        await edge.carry_out(await edge.resize_cluster(made))
        await edge.carry_out(await edge.delete_app(cluster=made))


async def edge_failed(place: Yard) -> None:
    """What its resource manager cannot create, change or delete."""
    async with site(place.client, place.database, place.prefix) as edge:
        await edge.carry_out(await edge.create_cluster())
        edge.fault = lambda _noun, _asked: "fail"
        await edge.carry_out(await edge.create_app())
        await edge.carry_out(await edge.resize_cluster())
        await edge.carry_out(await edge.delete_cluster())


async def edge_overdue(place: Yard) -> None:
    async with site(place.client, place.database, place.prefix, SHORT) as edge:
        edge.fault = does("silent", Tracked.CREATE_REQUESTED)
        await edge.carry_out(await edge.create_app(cluster="autocluster1"))


async def edge_cleared(place: Yard) -> None:
    """A cluster and a cloudlet with what gives way on them."""
    async with site(place.client, place.database, place.prefix) as edge:
        await edge.carry_out(await edge.create_cluster())
        await edge.carry_out(await edge.create_app("agent"))
        await edge.carry_out(await edge.delete_cluster())
        await edge.carry_out(await edge.create_app("agent", "autocluster1"))
        if requested := await edge.delete_cloudlet():
            await edge.carry_out(requested)


STORIES: dict[str, tuple[Story, MemoryWorld]] = {
    "created": (created, MemoryWorld.of(12)),
    "created-with-three-control-planes": (partial(created, control_planes=3), MemoryWorld.of(12)),
    "created-after-a-sour-machine": (created, MemoryWorld.of(12, sour=1)),
    "deleted": (created_and_deleted, MemoryWorld.of(12)),
    "with-storage": (with_storage, MemoryWorld.of(12)),
    "storage-refused": (storage_refused, MemoryWorld.of(12)),
    "cancelled": (cancelled, MemoryWorld.of(12)),
    "taken-over-by-a-delete": (taken_over, MemoryWorld.of(12)),
    "degraded": (short_of_a_worker, MemoryWorld.of(12)),
    "control-plane-given-back": (given_back, MemoryWorld.of(12)),
    "failed": (created, MemoryWorld.of(12, sour=12)),
    "grown-and-shrunk": (grown_and_shrunk, MemoryWorld.of(12)),
    "pool-added-and-deleted": (pool_added_and_deleted, MemoryWorld.of(12)),
    "shrinking-cancelled": (shrinking_cancelled, MemoryWorld.of(12)),
    "growth-cancelled": (growth_cancelled, MemoryWorld.of(12)),
    "pods-that-stay": (pods_that_stay, MemoryWorld.of(12)),
    "paused-and-resumed": (paused_and_resumed, MemoryWorld.of(12)),
    "paused-and-cancelled": (paused_and_cancelled, MemoryWorld.of(12)),
    "upgrade-approved": (upgrade_approved, MemoryWorld.of(12)),
    "left-behind": (let_go, MemoryWorld.of(12)),
    "upgraded": (upgraded, MemoryWorld.of(12)),
    "upgraded-with-three-control-planes": (
        partial(upgraded, control_planes=3),
        MemoryWorld.of(12),
    ),
    "upgrade-stopped": (upgrade_stopped, MemoryWorld.of(12)),
    "upgrade-resumed": (upgrade_resumed, MemoryWorld.of(12)),
    "upgrade-cancelled-while-emptying": (
        partial(upgrade_cancelled, step=5),
        MemoryWorld.of(12),
    ),
    "upgrade-cancelled-while-renewing": (
        partial(upgrade_cancelled, step=6),
        MemoryWorld.of(12),
    ),
    "upgrade-taken-over-by-a-delete": (upgrade_taken_over, MemoryWorld.of(12)),
    "first-pool": (first_pool, MemoryWorld.of(12)),
    **{
        case.replace(" ", "-"): (partial(repaired, case=case), MemoryWorld.of(12))
        for case in CASES
        if "worker" not in case or "replaced" in case
    },
    "repair-cancelled": (repair_cancelled, MemoryWorld.of(12)),
    "osds-taken": (osds_taken, MemoryWorld.of(1)),
    "osds-taken-cancelled": (osds_taken_cancelled, MemoryWorld.of(1)),
    "ceph-upgraded": (ceph_upgraded, MemoryWorld.of(1)),
    "ceph-upgrade-cancelled": (ceph_upgrade_cancelled, MemoryWorld.of(1)),
    "ceph-checked": (ceph_checked, MemoryWorld.of(1)),
    "own-pool": (own_pool, MemoryWorld.of(1)),
    "swept": (swept, MemoryWorld.of(12)),
    "watched": (watched, MemoryWorld.of(12)),
    "swept-and-watched": (swept_and_watched, MemoryWorld.of(12)),
    "edge-came-and-went": (edge_came_and_went, MemoryWorld.of(1)),
    "edge-failed": (edge_failed, MemoryWorld.of(1)),
    "edge-overdue": (edge_overdue, MemoryWorld.of(1)),
    "edge-cleared": (edge_cleared, MemoryWorld.of(1)),
}


async def main() -> None:
    target = HOME / version("windlass")
    target.mkdir(exist_ok=True)
    missing = [name for name in STORIES if not any(target.glob(f"*.{name}.json"))]
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        identity="recorder",
        dev_server_existing_path=str(BINARIES / "temporal"),
        dev_server_extra_args=devserver.FLAGS,
    ) as environment:
        for name in missing:
            story, world = STORIES[name]
            with tempfile.TemporaryDirectory() as folder:
                await _record(environment.client, name, story, world, Path(folder), target)
        for name in ON_NODES:
            if not any(target.glob(f"*.{name}.json")):
                with tempfile.TemporaryDirectory() as folder:
                    await _record_on_nodes(environment.client, name, Path(folder), target)


async def _record(
    client: Client, name: str, story: Story, world: MemoryWorld, folder: Path, target: Path
) -> None:
    url = f"sqlite+aiosqlite:///{folder}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    vault = Secrets(database, Seal(AESGCM.generate_key(bit_length=256)))
    prefix = f"{uuid4().hex[:8]}-"
    try:
        async with yard(client, database, vault, prefix, world=world, trouble=Trouble()) as place:
            await story(place)
        await _keep(client, prefix, name, target)
    finally:
        await database.close()


async def _record_on_nodes(client: Client, name: str, folder: Path, target: Path) -> None:
    url = f"sqlite+aiosqlite:///{folder}/windlass.db"
    await schema.upgrade(url)
    database, prefix = Database(url), f"{uuid4().hex[:8]}-"
    try:
        async with (
            harbour(client, database, url, prefix, folder, restart="always") as place,
            worker(client, database, prefix, folder),
        ):
            await ON_NODES[name](place)
            await until(lambda: _none_runs(client, prefix))
        await _keep(client, prefix, name, target)
    finally:
        await database.close()


async def _none_runs(client: Client, prefix: str) -> bool:
    query = f"TaskQueue = '{prefix}workflows' AND ExecutionStatus = 'Running'"
    return not [run async for run in client.list_workflows(query)]


async def _keep(client: Client, prefix: str, name: str, target: Path) -> None:
    async for run in client.list_workflows(f"TaskQueue = '{prefix}workflows'"):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        path = target / f"{run.workflow_type}.{name}.json"
        if path.exists():  # one child of a kind tells the story
            continue
        path.write_text(_portable(history.to_json()))
        print(f"{path.relative_to(HOME)}: {len(history.events)} events")


def _portable(history: str) -> str:
    """Without where a stumble came from on the machine that recorded it: nothing replays by it."""

    def kept(part: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in part.items() if key != "stackTrace"}

    return json.dumps(json.loads(history, object_hook=kept), indent=2)


if __name__ == "__main__":
    asyncio.run(main())
