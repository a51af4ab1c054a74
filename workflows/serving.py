"""Workers: one per class of hands, and one for the workflows and their books."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Interceptor, PollerBehaviorAutoscaling, Worker, WorkerDeploymentConfig

from activities.authenticity import Guard
from activities.verbs import BOOKS_QUEUE, queue_of, verbs
from domain.frozen import Frozen
from domain.payload_format import Migration
from domain.upgrade_policy import Mode, UpgradePolicy
from workflows import runner
from workflows.catalogue import CATALOGUE
from workflows.check_storage import CheckStorage
from workflows.cluster_monitor import ClusterMonitor
from workflows.drain_node import DrainNode
from workflows.provision_machine import ProvisionMachine
from workflows.retire_machine import RetireMachine
from workflows.revive_node import ReviveNode
from workflows.rouse import Rouse
from workflows.run_instance import RunInstance
from workflows.survey import Survey
from workflows.sweep import Sweep
from workflows.upgrade_node import UpgradeNode

HEARTBEAT_THROTTLE = timedelta(seconds=2)
"""A cancel reaches a hand with its next heartbeat, so this is how long it takes."""

SELDOM = {"watching": timedelta(seconds=30), "instances": timedelta(seconds=5)}
"""Queues with so many hands at a time that their heartbeats would be a load. None of them holds
anything, so a cancel may take its time."""

STICKY = timedelta(seconds=2)
"""How long the tasks of workflows that a killed worker had cached wait for it."""

SLOTS = 100

CATCH_UP = timedelta(hours=1)
"""What was missed by more than that is not made up for: the next one comes."""

JITTER = timedelta(minutes=10)

LONGEST_RUN = timedelta(minutes=10)
"""Of what a schedule starts: one that hangs would keep every later one from starting."""

SCHEDULED: dict[type, timedelta] = {
    Sweep: timedelta(seconds=5),
    Rouse: timedelta(seconds=5),
    Survey: timedelta(seconds=60),
}
"""What runs again and again, and how often."""

CHILDREN = [ProvisionMachine, RetireMachine, ReviveNode, UpgradeNode]
TENDING = [ClusterMonitor, RunInstance, DrainNode]
"""What lives as long as the thing it looks after, and knows nothing but its name."""

CHECKS = [CheckStorage]
"""What has a timetable of its operator's."""

WORKFLOWS = [*dict.fromkeys(CATALOGUE.values()), *CHILDREN, *TENDING, *SCHEDULED, *CHECKS]


class Serving(Frozen):
    """How much one process takes on."""

    slots: Mapping[str, int] = {}
    """Activities at once by queue; for `workflows`, workflow tasks at once."""
    cached_workflows: int = 1000
    graceful: timedelta = timedelta(seconds=30)
    prefix: str = ""
    deployment: str = "windlass"
    build_id: str = ""
    """Empty: unversioned."""
    migration: Migration = Migration.OFF


def crew(
    client: Client,
    hands: Iterable[object],
    books: Iterable[object],
    interceptors: Sequence[Interceptor],
    serving: Serving,
) -> dict[str, Worker]:
    """Workers for these hands by the name of their queue, and for the workflows if there are
    books to keep. Every activity a capability offers is served: none is listed by hand."""
    strict = not serving.migration.reads_old
    interceptors = [Guard(strict=strict), *interceptors, Guard(strict=strict, passing=True)]
    workers = {}
    for capability in hands:
        offered = verbs(capability)
        queue = queue_of(offered[0])
        throttle = SELDOM.get(queue, HEARTBEAT_THROTTLE)
        workers[queue] = Worker(
            client,
            task_queue=serving.prefix + queue,
            activities=offered,
            interceptors=interceptors,
            max_concurrent_activities=serving.slots.get(queue, SLOTS),
            max_heartbeat_throttle_interval=throttle,
            default_heartbeat_throttle_interval=throttle,
            graceful_shutdown_timeout=serving.graceful,
            activity_task_poller_behavior=PollerBehaviorAutoscaling(),
            deployment_config=_version(serving),
        )
    kept = [verb for capability in books for verb in verbs(capability)]
    if kept:
        workers[BOOKS_QUEUE] = Worker(
            client,
            task_queue=serving.prefix + BOOKS_QUEUE,
            workflows=WORKFLOWS,
            activities=kept,
            interceptors=interceptors,
            workflow_runner=runner(),
            no_remote_activities=True,
            max_concurrent_workflow_tasks=serving.slots.get(BOOKS_QUEUE, SLOTS),
            max_cached_workflows=serving.cached_workflows,
            sticky_queue_schedule_to_start_timeout=STICKY,
            graceful_shutdown_timeout=serving.graceful,
            workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
            deployment_config=_version(serving),
        )
    return workers


def _version(serving: Serving) -> WorkerDeploymentConfig | None:
    if not serving.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(serving.deployment, serving.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def schedule(client: Client, prefix: str, every: Mapping[type, timedelta]) -> None:
    """Create or correct the schedules. Any number of workers may do so at the same time."""
    for flow, interval in every.items():
        name = f"{prefix}{flow.__name__.lower()}"
        wanted = Schedule(
            action=ScheduleActionStartWorkflow(
                flow.__name__,
                id=name,
                task_queue=prefix + BOOKS_QUEUE,
                run_timeout=LONGEST_RUN,
            ),
            spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
        )

        async def corrected(_: ScheduleUpdateInput, wanted: Schedule = wanted) -> ScheduleUpdate:
            return ScheduleUpdate(schedule=wanted)

        try:
            await client.create_schedule(f"windlass-{name}", wanted, trigger_immediately=True)
        except ScheduleAlreadyRunningError:
            await client.get_schedule_handle(f"windlass-{name}").update(corrected)


async def keep(client: Client, prefix: str, cluster: str, policy: UpgradePolicy) -> None:
    """Have the schedule as the policy says. Any number of workers may do so at the same time."""
    name, timetable = f"{prefix}ceph-version-check-{cluster}", policy.timetable
    wanted = Schedule(
        action=ScheduleActionStartWorkflow(
            CheckStorage.__name__,
            id=name,
            task_queue=prefix + BOOKS_QUEUE,
            run_timeout=LONGEST_RUN,
        ),
        spec=ScheduleSpec(
            cron_expressions=list(timetable.crons),
            time_zone_name=timetable.zone,
            jitter=JITTER,
        ),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP),
        state=ScheduleState(paused=policy.mode is Mode.DISABLED),
    )

    async def corrected(_: ScheduleUpdateInput) -> ScheduleUpdate:
        return ScheduleUpdate(schedule=wanted)

    try:
        await client.create_schedule(
            name, wanted, trigger_immediately=policy.mode is not Mode.DISABLED
        )
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(name).update(corrected)
