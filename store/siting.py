"""Where an app's instance goes: what there is there, what it takes, and how it is written down."""

from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from domain import appinst, awaiting
from domain.app import App, Deployment
from domain.appinst import AppInst, AppInstKey, Ground, Placed
from domain.awaiting import Aim
from domain.cloudlet import Cloudlet
from domain.clusterinst import ClusterInst
from domain.flavor import Flavor
from domain.frozen import Frozen
from domain.instance_plan import InstancePlan
from domain.key_text import app_text, appinst_text, cloudlet_text, clusterinst_text, name_text
from domain.naming import AUTO_CLUSTER
from domain.operation import Ask
from domain.override import Override
from domain.record import Link, Noun
from domain.refusal import Refusal, refuse_if
from domain.tracking import APP_MOVES, Move, Phase, led
from domain.usage import Usage
from store import cloudlet_refs, quotas, settling, shelf, tracked
from store.edge_rows import AppInstRow, CloudletRefsRow, ClusterInstRow
from store.rows import OperationRow, now
from store.tracked import Terms


class Asking(Frozen):
    """An instance that is asked for."""

    wanted: AppInst
    override: Override
    ask: Ask


class Spot(NamedTuple):
    """What a transaction holds where an instance is to run."""

    app: App | None
    cloudlet: Cloudlet | None
    refs: CloudletRefsRow | None
    row: AppInstRow | None
    """The instance itself, if there is one of that key."""
    cluster: ClusterInstRow | None

    @property
    def ground(self) -> Ground:
        """The same for those who decide."""
        return Ground(
            phase=Phase(self.row.phase) if self.row else Phase.NOT_PRESENT,
            cloudlet=self.cloudlet,
            app=self.app,
            cluster=described(self.cluster),
            cluster_phase=Phase(self.cluster.phase) if self.cluster else Phase.NOT_PRESENT,
        )


async def place(
    session: AsyncSession, operation: OperationRow, plan: InstancePlan, terms: Terms
) -> None:
    """Write the instance of an operation that has waited for its cluster, or refuse it. Asked
    again it changes nothing."""
    if plan.wanted is None:
        return
    asked = Asking(wanted=plan.wanted, override=plan.override, ask=tracked.part_of(operation))
    key = plan.wanted.key
    app, cloudlet = await named(session, key)
    refs = await refs_of(session, key)
    row = await session.get(AppInstRow, plan.key, with_for_update=True)
    if row is not None and row.operation == operation.id:
        return
    spot = Spot(app, cloudlet, refs, row, await cluster_of(session, key))
    placed = await placed_now(session, asked, spot, terms)
    await write(session, asked, spot, placed, operation, terms)


async def named(session: AsyncSession, key: AppInstKey) -> tuple[App | None, Cloudlet | None]:
    """What an instance names, held against being deleted meanwhile."""
    links = [
        Link(to=Noun.APP, key=app_text(key)),
        Link(to=Noun.CLOUDLET, key=cloudlet_text(key.cluster.cloudlet)),
    ]
    there = await shelf.read_held(session, links)
    app, cloudlet = (there.get((link.to, link.key)) for link in links)
    return (
        App.model_validate_json(app) if app else None,
        Cloudlet.model_validate_json(cloudlet) if cloudlet else None,
    )


async def refs_of(session: AsyncSession, key: AppInstKey) -> CloudletRefsRow | None:
    """The cloudlet's row of what is taken; of the default cloudlet nothing is."""
    cloudlet = key.cluster.cloudlet
    return None if cloudlet.is_default else await cloudlet_refs.held(session, cloudlet)


async def found(
    session: AsyncSession, key: AppInstKey
) -> tuple[AppInstRow | None, OperationRow | None]:
    """The instance of that key, and the operation that holds the key and is not done."""
    text = appinst_text(key)
    row = await session.get(AppInstRow, text, with_for_update=True)
    running = await tracked.active(session, Noun.APP_INST, text)
    if running is not None and await settling.finish(session, running, row):
        running = None
    return row, running


async def cluster_of(session: AsyncSession, key: AppInstKey) -> ClusterInstRow | None:
    """The cluster of an instance, kept as it is meanwhile."""
    text = clusterinst_text(key.cluster)
    return await session.get(ClusterInstRow, text, with_for_update={"read": True})


async def inherited(
    session: AsyncSession, wanted: AppInst, told: list[str]
) -> tuple[AppInst, ClusterInstRow | None]:
    """The instance in the cluster of that name which is its app's developer's, if there is one."""
    key = wanted.key
    cluster = key.cluster.model_copy(update={"developer": key.developer})
    own = wanted.model_copy(update={"key": key.model_copy(update={"cluster": cluster})})
    found = await cluster_of(session, own.key)
    if found is None:
        return wanted, None
    told.append(awaiting.INHERITED)
    return own, found


def needs_cluster(key: AppInstKey, app: App) -> bool:
    """Whether a cluster that is not there is to be made."""
    made = key.cluster.cluster.startswith(AUTO_CLUSTER)
    return made and app.deployment != Deployment.VM and not key.cluster.cloudlet.is_default


def auto_cluster(wanted: AppInst, app: App) -> ClusterInst:
    counted = app.deployment != Deployment.DOCKER
    return ClusterInst(
        key=wanted.key.cluster,
        flavor=wanted.flavor or app.default_flavor,
        ip_access=wanted.auto_ip_access,
        masters=int(counted),
        nodes=int(counted),
        deployment=app.deployment,
        auto=True,
    )


async def placed_now(
    session: AsyncSession,
    asked: Asking,
    spot: Spot,
    terms: Terms,
) -> Placed:
    """An instance where it is to run, by what there is there now, or its refusal."""
    wanted = asked.wanted
    if spot.row is not None:
        stored = AppInst.model_validate_json(spot.row.facts)
        default = wanted.key.cluster.cloudlet.is_default
        wanted = stored.model_copy(update={"uri": wanted.uri if default else ""})
        if spot.refs is not None:
            await cloudlet_refs.give_back(session, spot.refs, spot.row)
    default_flavor = spot.app.default_flavor if spot.app else ""
    names = [name for name in (wanted.flavor, default_flavor) if name]
    links = [Link(to=Noun.FLAVOR, key=name_text(name)) for name in names]
    flavors = (await shelf.read_held(session, links)).values()
    more = {
        "flavors": tuple(map(Flavor.model_validate_json, flavors)),
        "usage": cloudlet_refs.usage(spot.refs) if spot.refs is not None else Usage(),
    }
    ground = spot.ground.model_copy(update=more)
    text = clusterinst_text(wanted.key.cluster)
    placed = appinst.placed(wanted, ground, text, asked.override)
    await tracked.refuse_unknown_developer(session, wanted.key.developer, terms)
    return placed


async def write(
    session: AsyncSession,
    asked: Asking,
    spot: Spot,
    placed: Placed,
    operation: OperationRow,
    terms: Terms,
) -> None:
    """Write an accepted instance, and put it before its resource manager, if that is asked."""
    row = spot.row or _row(placed.instance)
    if spot.row is not None:
        await tracked.unlink(session, Noun.APP_INST, row.key)
    row.facts, row.errors = placed.instance.model_dump_json(exclude_defaults=True), "[]"
    row.runtime, row.created = "[]", now()
    await tracked.claim(session, row, operation, terms, Aim.CREATE)
    if spot.refs is not None:
        await cloudlet_refs.take(session, spot.refs, row, placed.taken)
    await tracked.link(session, Noun.APP_INST, row.key, _links(spot.app, placed.instance))
    at_once = asked.override.ignores_crm or placed.instance.key.cluster.cloudlet.is_default
    requested = led(APP_MOVES, Phase(row.phase), Move.CREATE, override=asked.override)
    await tracked.move(session, row, Phase.READY if at_once else requested)
    session.add(row)  # now, so that it is written once
    if spot.row is None:
        developer = name_text(placed.instance.key.developer)
        await quotas.refuse_more(session, terms.quota, [developer])
    if at_once:
        await session.flush()
        await tracked.tell(session, operation.id, awaiting.CREATED)
        await tracked.succeed(session, operation.id)


def refuse_if_taken(
    row: AppInstRow | None, running: OperationRow | None, override: Override
) -> None:
    if row is not None and row.phase == Phase.CREATE_ERROR:
        hint = awaiting.failed_before(Noun.APP_INST, Aim.CREATE, tracked.errors_of(row))
        raise Refusal.KEY_TAKEN().after([hint])
    refuse_if(running is not None and not override.displaces, Refusal.KEY_TAKEN)


def _links(app: App | None, instance: AppInst) -> list[Link]:
    key = instance.key
    yields = app is not None and app.auto_delete
    return [
        Link(to=Noun.APP, key=app_text(key)),
        Link(to=Noun.FLAVOR, key=name_text(instance.flavor)),
        Link(to=Noun.CLOUDLET, key=cloudlet_text(key.cluster.cloudlet), yields=yields),
    ]


def plan_of(instance: AppInst, aim: Aim, override: Override) -> InstancePlan:
    key = instance.key
    return InstancePlan(
        noun=Noun.APP_INST,
        aim=aim,
        key=appinst_text(key),
        cloudlet=cloudlet_text(key.cluster.cloudlet),
        override=override,
        cluster=clusterinst_text(key.cluster),
    )


def _row(instance: AppInst) -> AppInstRow:
    key = instance.key
    return AppInstRow(
        key=appinst_text(key),
        cloudlet=cloudlet_text(key.cluster.cloudlet),
        phase=Phase.NOT_PRESENT,
        **tracked.blank(),
        runtime="[]",
        app=app_text(key),
        cluster=clusterinst_text(key.cluster),
    )


def described(cluster: ClusterInstRow | None) -> ClusterInst | None:
    return None if cluster is None else ClusterInst.model_validate_json(cluster.facts)
