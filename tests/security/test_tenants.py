"""Tenants, by a model: three developers and the owners of two cloudlets' programs do whatever the
contracts allow, with names that collide and names that belong to others. Nobody sees, changes, runs
in or names what is another's.

The model knows what each developer has. After every step everybody is shown that and nothing else,
and no answer or refusal holds the secret of another. Names are drawn from a few that are easily
taken for one another, so that they meet all the time."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from temporalio.testing import WorkflowEnvironment

from agent.bearing import carrying
from api import build
from api.__main__ import Api
from api.access import PERMISSIONS
from domain.access import Principal, Role
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo, AppInstKey
from protos.gen.edge.app_pb2 import App, AppKey
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.cluster_pb2 import ClusterKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo, ClusterInstKey
from protos.gen.edge.common_pb2 import CREATE_ERROR, READY
from protos.gen.edge.developer_pb2 import Developer, DeveloperKey
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.refs_pb2 import ClusterRefs
from settings import Auth, Settings, Temporal
from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from store.tokens import Tokens
from store.users import Users
from tests.api.caller import read
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.programs.running import surroundings
from tests.store.desk import until
from tests.support.load import limit
from tests.workflows.yard import yard

EXAMPLES, STEPS = 8, 15
BUDGET_SECONDS = 30.0
"""No step begins later than this. A slow machine takes fewer steps."""

SECONDS = 120
HOUR = timedelta(hours=1)
DEVELOPERS = "acme", "Acme", "acme.1"
"""Names that are the same in DNS, or begin alike."""
APPS = "shop", "Shop", "sho.p"
VERSIONS = "1.0", "10"
CLUSTERS = "blue", "Blue", "b.lue"
PLACES = "west", "east"
CONTAINERS = "", "shop-0", "Shop-0"

ROOT = Path(__file__).parent.parent.parent
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNKNOWN = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}
"""Answers that no request may get."""

Answer = TypeVar("Answer")


class Actor(NamedTuple):
    """A developer, and a word that nobody else may ever read."""

    name: str
    edge: Edge
    secret: str


class World(NamedTuple):
    loop: asyncio.AbstractEventLoop
    admin: Edge
    developers: dict[str, Actor]
    agents: dict[str, grpc.aio.Channel]
    """By the cloudlet that each may speak of."""
    done: Counter[str]
    """How often each step succeeded, and was denied."""
    until: float

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)


def _channel(address: str, token: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, interceptors=carrying(token))


@asynccontextmanager
async def manager(place: str, address: str, token: str) -> AsyncIterator[None]:
    """A resource manager, as a process with a token of its own."""
    options = ("--cloudlet", f"tele/{place}", "--controller", address)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.crm", *options),
        cwd=ROOT,
        env=surroundings(WINDLASS_TOKEN=token),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@asynccontextmanager
async def world(temporal: WorkflowEnvironment, home: Path, prefix: str) -> AsyncIterator[World]:
    """A server at which everybody signs in, with workers, and a resource manager on each cloudlet
    whose token is good for that one alone."""
    url = f"sqlite+aiosqlite:///{home}/windlass.db"
    await schema.upgrade(url)
    said = Settings(
        database=url,
        key_file=home / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(queue_prefix=prefix),
        auth=Auth(mode="required"),
    )
    database, seal = Database(url), Seal(AESGCM.generate_key(bit_length=256))
    users, tokens = Users(database), Tokens(database)

    async def signed_in(who: Principal, *cloudlets: str) -> str:
        await users.add(who, "")
        token, _ = await tokens.issue(who.name, lifetime=HOUR, label="test", cloudlets=cloudlets)
        return token

    api = Api(said, temporal.client, build.Build())
    address, _ = await api.start()
    root = _channel(address, await signed_in(Principal(name="root", role=Role.ADMIN)))
    developers, crms = {}, {}
    for number, name in enumerate(DEVELOPERS):
        who = Principal(name=f"dev-{number}", role=Role.DEVELOPER, developer=name)
        edge = Edge(_channel(address, await signed_in(who)))
        developers[name] = Actor(name, edge, f"secret{number}x")
    for place in PLACES:
        who = Principal(name=f"crm-{place}", role=Role.AGENT)
        crms[place] = await signed_in(who, f"tele/{place}")
    agents = {place: _channel(address, token) for place, token in crms.items()}
    made = World(
        asyncio.get_running_loop(),
        Edge(root),
        developers,
        agents,
        Counter(),
        monotonic() + BUDGET_SECONDS,
    )
    async with yard(temporal.client, database, Secrets(database, seal), prefix):
        await made.admin("CreateFlavor", stubs.flavor())
        for place in PLACES:
            await made.admin("CreateCloudlet", stubs.cloudlet(place, num_dynamic_ips=500))
        async with manager("west", address, crms["west"]), manager("east", address, crms["east"]):

            async def are_described() -> bool:
                return len(await made.admin("ShowCloudletInfo", CloudletInfo())) == len(PLACES)

            async with limit(SECONDS):
                await until(are_described)
            yield made._replace(until=monotonic() + BUDGET_SECONDS)
    for opened in (root, *agents.values(), *(each.edge.channel for each in developers.values())):
        await opened.close()
    await api.stop()
    await database.close()


any_developer = st.sampled_from(DEVELOPERS)
any_app = st.tuples(st.sampled_from(APPS), st.sampled_from(VERSIONS))
any_cluster = st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(PLACES))
mostly_own = st.one_of(st.none(), st.none(), any_developer)
"""Whose the actor says that something is. None: its own."""


def app_key(owner: str, app: tuple[str, str]) -> AppKey:
    name, version = app
    return AppKey(developer_key=DeveloperKey(name=owner), name=name, version=version)


def cluster_key(owner: str, cluster: tuple[str, str]) -> ClusterInstKey:
    name, place = cluster
    return ClusterInstKey(
        cluster_key=ClusterKey(name=name), cloudlet_key=stubs.cloudlet(place).key, developer=owner
    )


def instance_key(
    owner: str, app: tuple[str, str], cluster: tuple[str, str], holder: str
) -> AppInstKey:
    return AppInstKey(app_key=app_key(owner, app), cluster_inst_key=cluster_key(holder, cluster))


def text(key: Message) -> str:
    return key.SerializeToString(deterministic=True).hex()


class Tenants(RuleBasedStateMachine):
    world: World

    has: dict[str, dict[str, set[str]]]
    """What each developer has. It is the same world for all examples, which go on where the last
    one ended: to begin anew takes longer than many steps."""

    async def begin(self) -> None:
        """Everybody has the same, by the same names."""
        for name in DEVELOPERS:
            made = Developer(key=DeveloperKey(name=name))
            await self.world.admin("CreateDeveloper", made)
        await asyncio.gather(*map(self._equip, DEVELOPERS))

    async def _equip(self, name: str) -> None:
        app, cluster = ("shop", "1.0"), ("blue", "west")
        await self._create(name, "App", self._app(name, name, app))
        await self._create(name, "ClusterInst", self._cluster(name, cluster))
        key = instance_key(name, app, cluster, name)
        await self._create(name, "AppInst", AppInst(key=key))
        assert all(self.has[name].values()), "or it would be shown for nothing"

    def _app(self, actor: str, owner: str, app: tuple[str, str]) -> App:
        secret = self.world.developers[actor].secret
        described = {"deployment": "docker", "image_path": f"registry.example/{secret}:1"}
        name, version = app
        return stubs.app(name, owner, version, access_ports="", **described)

    def _cluster(self, owner: str, cluster: tuple[str, str]) -> ClusterInst:
        made = ClusterInst(key=cluster_key(owner, cluster), deployment="docker")
        made.flavor.name = "small"
        return made

    # What they do.

    @rule(actor=any_developer, owner=mostly_own, app=any_app)
    def create_app(self, actor: str, owner: str | None, app: tuple[str, str]) -> None:
        self._step(actor, owner, self._create, "App", self._app(actor, owner or actor, app))

    @rule(actor=any_developer, owner=mostly_own, app=any_app)
    def update_app(self, actor: str, owner: str | None, app: tuple[str, str]) -> None:
        change = self._app(actor, owner or actor, app)
        change.fields.append("12")
        self._step(actor, owner, self._call, "UpdateApp", change)

    @rule(actor=any_developer, owner=mostly_own, app=any_app)
    def delete_app(self, actor: str, owner: str | None, app: tuple[str, str]) -> None:
        self._step(actor, owner, self._delete, "App", App(key=app_key(owner or actor, app)))

    @rule(actor=any_developer, owner=mostly_own, cluster=any_cluster)
    def create_cluster(self, actor: str, owner: str | None, cluster: tuple[str, str]) -> None:
        made = self._cluster(owner or actor, cluster)
        self._step(actor, owner, self._create, "ClusterInst", made)

    @rule(actor=any_developer, owner=mostly_own, cluster=any_cluster)
    def delete_cluster(self, actor: str, owner: str | None, cluster: tuple[str, str]) -> None:
        named = ClusterInst(key=cluster_key(owner or actor, cluster))
        self._step(actor, owner, self._delete, "ClusterInst", named)

    @rule(
        actor=any_developer, owner=mostly_own, holder=mostly_own, app=any_app, cluster=any_cluster
    )
    def create_instance(
        self,
        actor: str,
        owner: str | None,
        holder: str | None,
        app: tuple[str, str],
        cluster: tuple[str, str],
    ) -> None:
        """An app of one developer in a cluster of another, too."""
        key = instance_key(owner or actor, app, cluster, holder or actor)
        self._step(actor, _other(actor, owner, holder), self._create, "AppInst", AppInst(key=key))

    @rule(actor=any_developer, owner=mostly_own, holder=mostly_own)
    def delete_instance(self, actor: str, owner: str | None, holder: str | None) -> None:
        key = instance_key(owner or actor, ("shop", "1.0"), ("blue", "west"), holder or actor)
        self._step(actor, _other(actor, owner, holder), self._delete, "AppInst", AppInst(key=key))

    @rule(
        actor=any_developer, owner=mostly_own, container=st.sampled_from(["", "shop-0", "Shop-0"])
    )
    def run_command(self, actor: str, owner: str | None, container: str) -> None:
        key = instance_key(owner or actor, ("shop", "1.0"), ("blue", "west"), owner or actor)
        secret = self.world.developers[actor].secret
        asked = ExecRequest(app_inst_key=key, command=f"echo {secret}", container_id=container)
        self._step(actor, owner, self._call, "RunCommand", asked)

    @rule(actor=any_developer, owner=any_developer)
    def show_with_anothers_name(self, actor: str, owner: str) -> None:
        for method, example in _examples(owner).items():
            self._step(actor, owner, self._call, method, example)

    @rule(
        actor=any_developer,
        method=st.sampled_from(sorted(PERMISSIONS)),
    )
    def call_what_is_not_for_developers(self, actor: str, method: str) -> None:
        channel = self.world.developers[actor].edge.channel
        if not self.is_over:
            self.world.wait(_refuses(channel, method, Role.DEVELOPER))

    @rule(place=st.sampled_from(PLACES), method=st.sampled_from(sorted(PERMISSIONS)))
    def call_what_is_not_for_agents(self, place: str, method: str) -> None:
        if not self.is_over:
            self.world.wait(_refuses(self.world.agents[place], method, Role.AGENT))

    @rule(place=st.sampled_from(PLACES), owner=any_developer)
    def speak_of_anothers_cloudlet(self, place: str, owner: str) -> None:
        """An agent describes a cloudlet that is not its own, and says of what is there that it has
        failed."""
        if self.is_over:
            return
        [other] = set(PLACES) - {place}
        self.world.wait(self._speak(self.world.agents[place], other, owner))
        self._check()

    async def _speak(self, channel: grpc.aio.Channel, place: str, owner: str) -> None:
        key = instance_key(owner, ("shop", "1.0"), ("blue", place), owner)
        peer = Peer(channel, filtered=True)
        peer.tell(stubs.info(place))
        peer.tell(AppInstInfo(key=key, state=CREATE_ERROR, errors=["taken over"]))
        peer.tell(ClusterInstInfo(key=key.cluster_inst_key, state=CREATE_ERROR))
        await asyncio.wait([peer._reading], timeout=1)
        assert not any(peer.there[each] for each in ("ClusterInst", "AppInst", "App"))
        await peer.lose()
        self.world.done["agent denied"] += 1

    # What must hold.

    def _step(
        self,
        actor: str,
        owner: str | None,
        does: Callable[..., Coroutine[Any, Any, grpc.StatusCode]],
        *arguments: Any,
    ) -> None:
        if self.is_over:
            return
        code = self.world.wait(does(actor, *arguments))
        if owner not in (None, actor):
            assert code is DENIED, (actor, owner, arguments)
        assert code not in UNKNOWN, (actor, arguments)
        self.world.done[f"{does.__name__} {code.name}"] += 1
        self._check()

    @property
    def is_over(self) -> bool:
        return monotonic() > self.world.until

    def _check(self) -> None:
        self.world.wait(self._see())

    async def _see(self) -> None:
        await asyncio.gather(*map(self._see_own, DEVELOPERS))
        everything = await self.world.admin("ShowAppInst", AppInst())
        assert len(everything) == sum(len(has["AppInst"]) for has in self.has.values())
        assert all(each.state == READY for each in everything)

    async def _see_own(self, name: str) -> None:
        for noun, has in self.has[name].items():
            answers = await self._read(name, f"Show{noun}", EMPTY[noun])
            assert {text(each.key) for each in answers} == has, (name, noun)
        for method, empty in ALSO_SHOWN.items():
            for each in await self._read(name, method, empty):
                assert _owner_of(each.key) == name, (name, method)

    async def _create(self, actor: str, noun: str, wanted: Any) -> grpc.StatusCode:
        code = await self._call(actor, f"Create{noun}", wanted)
        if code is grpc.StatusCode.OK:
            self.has[actor][noun].add(text(wanted.key))
        return code

    async def _delete(self, actor: str, noun: str, named: Any) -> grpc.StatusCode:
        code = await self._call(actor, f"Delete{noun}", named)
        if code is grpc.StatusCode.OK:
            self.has[actor][noun].discard(text(named.key))
        return code

    async def _call(self, actor: str, method: str, request: Any) -> grpc.StatusCode:
        try:
            await self._read(actor, method, request)
        except grpc.aio.AioRpcError as error:
            refusal = read(error)
            self._is_no_secret(actor, [repr(refusal).encode()])
            return refusal.code
        return grpc.StatusCode.OK

    async def _read(self, actor: str, method: str, request: Any) -> list[Any]:
        answers = await self.world.developers[actor].edge(method, request, timeout=SECONDS)
        self._is_no_secret(actor, (each.SerializeToString() for each in answers))
        return answers

    def _is_no_secret(self, actor: str, read: Iterable[bytes]) -> None:
        for each in read:
            for other in self.world.developers.values():
                assert other.name == actor or other.secret.encode() not in each, (actor, each)


EMPTY: dict[str, Any] = {"App": App(), "ClusterInst": ClusterInst(), "AppInst": AppInst()}
ALSO_SHOWN: dict[str, Any] = {
    "ShowDeveloper": Developer(),
    "ShowClusterInstInfo": ClusterInstInfo(),
    "ShowAppInstInfo": AppInstInfo(),
    "ShowClusterRefs": ClusterRefs(),
}


def _examples(owner: str) -> dict[str, Any]:
    """Everything that is shown by example, with somebody's name in it."""
    key = AppInstKey(app_key=AppKey(developer_key=DeveloperKey(name=owner)))
    cluster = ClusterInstKey(developer=owner)
    return {
        "ShowDeveloper": Developer(key=DeveloperKey(name=owner)),
        "ShowApp": App(key=key.app_key),
        "ShowClusterInst": ClusterInst(key=cluster),
        "ShowAppInst": AppInst(key=key),
        "ShowClusterInstInfo": ClusterInstInfo(key=cluster),
        "ShowAppInstInfo": AppInstInfo(key=key),
        "ShowClusterRefs": ClusterRefs(key=cluster),
    }


def _owner_of(key: Any) -> str:
    match key:
        case DeveloperKey():
            return str(key.name)
        case ClusterInstKey():
            return str(key.developer)
        case AppInstKey():
            return str(key.app_key.developer_key.name)
    raise AssertionError(key)


def _other(actor: str, *named: str | None) -> str | None:
    """Whoever else is named. None: nobody."""
    return next((each for each in named if each not in (None, actor)), None)


def nothing() -> dict[str, dict[str, set[str]]]:
    return {name: {noun: set() for noun in EMPTY} for name in DEVELOPERS}


async def _refuses(channel: grpc.aio.Channel, method: str, role: Role) -> None:
    """A method that is not for a role says so, whatever it is asked."""
    roles = PERMISSIONS[method].roles
    if roles is None or role in roles:
        return
    calling: Any = channel.stream_stream(f"/{method}")
    call = calling(iter([b""]), timeout=SECONDS)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is DENIED, method


async def test_nobody_sees_changes_runs_in_or_names_what_is_anothers(
    temporal: WorkflowEnvironment, tmp_path: Path, queues: str
) -> None:
    async with world(temporal, tmp_path, queues) as made:
        machine = type("Played", (Tenants,), {"world": made, "has": nothing()})
        await machine().begin()
        how = settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        await asyncio.to_thread(run_state_machine_as_test, machine, settings=how)
        denied = sum(times for what, times in made.done.items() if "DENIED" in what)
        assert denied, made.done
        assert made.done["_call OK"] + made.done["_create OK"], made.done
