"""`windlass up`: a whole site on this machine, with its first cluster, until Ctrl-C.

It starts the processes that a site is made of and then uses them as anybody would, over gRPC."""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from cli.calling import Call
from cli.cloudlets import EXEC_HINT, NAMES, OPERATOR, raise_cloudlets
from cli.complaints import Code, Complaint
from cli.fleet import agents, first_app, first_instance, manager
from cli.parts import Part, Site, answers, listening, refuse_taken_ports

if TYPE_CHECKING:
    from rich.console import Console

    from settings import Settings

FIRST = "hello"
POOL, WORKERS = "worker", 2
AGAIN_SECONDS = 2.0


async def run(call: Call, *, cluster: bool = True) -> int:
    """Start everything, create the first cluster unless it is there, and stay until told to stop.

    A second run in the same folder finds everything as it was."""
    from cli.config import loaded

    settings = loaded()
    refuse_encryption(settings)
    call.address, call.token = settings.grpc_address, ""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with _alone(settings.state):
        site = Site(_made(settings.state / "log"))
        parts = _parts(settings)
        refuse_taken_ports([*parts, *agents(settings)])
        await migrate()
        first = await _stored("administrator")
        try:
            work = asyncio.create_task(
                _whole(call, settings, site, parts, cluster=cluster, first=first)
            )
            return await _until(stop, work)
        finally:
            call.page.err.print("stopping …")
            await site.stop()


def refuse_encryption(settings: "Settings") -> None:
    """Complain at once of settings that a site on this machine cannot go by: its parts talk to one
    another on loopback, in the clear."""
    said = settings.tls.model_dump(exclude_defaults=True)
    if said:
        names = ", ".join(f"WINDLASS_TLS__{name.upper()}" for name in sorted(said))
        raise Complaint(
            f"windlass up runs a site on loopback without encryption, and {names} is set",
            do="leave it out here (env -u), or run the parts by themselves: "
            "docs/operating.md#processes",
        )


async def _until(stop: asyncio.Event, work: "asyncio.Task[int]") -> int:
    told = asyncio.create_task(stop.wait())
    await asyncio.wait([work, told], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        told.cancel()
        return work.result()
    work.cancel()
    await asyncio.wait([work])
    return Code.OK


async def _whole(
    call: Call,
    settings: "Settings",
    site: Site,
    parts: Sequence[Part],
    *,
    cluster: bool,
    first: str,
) -> int:
    out, began = call.page.out, monotonic()

    async def start(part: Part) -> None:
        await site.start(part)
        out.print(f"{monotonic() - began:5.1f} s  {part.name} is up{_where(part)}")

    for part in parts:
        await start(part)
    fleet = agents(settings)
    await asyncio.gather(*map(start, [*fleet, *([manager(settings)] if fleet else [])]))
    out.print(_addresses(settings, first=first), markup=False)
    tending = asyncio.create_task(site.tend(lambda said: call.page.err.print(said, markup=False)))
    try:
        if cluster:
            await _made_firsts(call, settings, site)
        out.print(_hints(cluster=cluster), markup=False)
        await tending
    finally:
        tending.cancel()
        await asyncio.wait([tending])
    return Code.OK


async def _made_firsts(call: Call, settings: "Settings", site: Site) -> None:
    """Make the first things. If a part ended meanwhile it is started again, and so is this: what is
    there is taken up."""
    import grpc

    while True:
        ends = site.ends
        try:
            return await _firsts(call, settings, call.page.out)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or site.ends == ends:
                raise
        await asyncio.sleep(AGAIN_SECONDS)


async def _firsts(call: Call, settings: "Settings", out: "Console") -> None:
    """What there is to begin with: an app on each cloudlet, a cluster, and an instance."""
    if settings.site.embedded:
        await raise_cloudlets(call, out)
    await _first_cluster(call, out)
    if settings.agent.embedded:
        await first_instance(call, out)
        await first_app(call, out)


async def _first_cluster(call: Call, out: "Console") -> None:
    """Create the first cluster and show it being built; take up what an earlier run began."""
    import grpc

    from cli.watching import judged, watch
    from protos.gen.kaas import api_pb2 as pb
    from protos.gen.kaas.api_pb2_grpc import ClusterStub
    from protos.gen.ops.operations_pb2 import SUCCEEDED, ListOperationsRequest
    from protos.gen.ops.operations_pb2_grpc import OperationsStub

    clusters = ClusterStub(call.channel)
    try:
        there = await call.ask(clusters.GetCluster, pb.GetClusterMsg(name=FIRST))
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        order = pb.CreateClusterMsg(
            name=FIRST,
            control_plane_nodes=pb.ControlPlaneMachineSpec(count=1),
            worker_node_pools=[pb.MachineSpec(name=POOL, count=WORKERS)],
        )
        _, operation = await call.change(clusters.CreateCluster, order)
        out.print(f"\ncreating cluster {FIRST}: 1 control plane, {WORKERS} workers")
    else:
        status = pb.ClusterStatus.Name(there.cluster.status)
        out.print(f"\ncluster {FIRST} is here already: {status}")
        if there.cluster.status not in (pb.PROVISIONING, pb.RECONCILING):
            return
        latest = ListOperationsRequest(page_size=1, subject=f"cluster/{FIRST}")
        listed = await call.ask(OperationsStub(call.channel).List, latest)
        operation = listed.operations[0].name.removeprefix("operations/")
    judged(await watch(call.channel, operation, console=out), SUCCEEDED)


def _addresses(settings: "Settings", *, first: str) -> str:
    """Where everything is, told before anything is waited for."""
    temporal = settings.temporal
    host = temporal.address.rpartition(":")[0]
    ui = f"http://{host}:{temporal.ui_port}" if temporal.embedded else "where Temporal runs"
    lines = [
        "",
        f"  gRPC         {settings.grpc_address}",
        f"  HTTP         http://{settings.http_address}   (/livez /readyz /metrics)",
        f"  Temporal UI  {ui}",
        f"  Temporal     {temporal.address}",
    ]
    if settings.site.embedded:
        lines.append(f"  MAAS         http://{settings.site.host}:{settings.site.port}/MAAS/")
    if first:
        name, _, password = first.partition(" ")
        lines.append(
            f"  sign-in      {name} with {password}   (told this once; none is needed here)"
        )
    lines += [
        f"  state, logs  {settings.state}/   (delete it to begin anew; nothing is kept elsewhere)",
    ]
    return "\n".join(lines)


def _hints(*, cluster: bool) -> str:
    commands = [f"  {command}" for command in (CLUSTER_HINTS if cluster else HINTS)]
    lines = ["", "try next, in another terminal:", *commands]
    return "\n".join([*lines, "", "up. Ctrl-C stops everything."])


HINTS = (
    "windlass cluster create blue --pool worker=2 --wait",
    "windlass op list",
    "windlass doctor",
)
CLUSTER_HINTS = (
    f"windlass cluster nodes {FIRST}",
    f"windlass cluster kubeconfig {FIRST} --merge --use && kubectl get nodes",
    "windlass cluster create blue --control-planes 3 --pool worker=2 --wait",
    EXEC_HINT,
    "windlass pod list && windlass events -f",
)


def _where(part: Part) -> str:
    return f" on {', '.join(part.listens.values())}" if part.listens else ""


def _parts(settings: "Settings") -> list[Part]:
    """What to run, in the order in which one needs the other."""
    chosen = [_temporal(settings)] if settings.temporal.embedded else []
    if settings.site.embedded:
        chosen.append(_simulated_site(settings))
    chosen += [_api(settings), _worker(settings)]
    return [*chosen, _cloudlets()] if settings.site.embedded else chosen


def _temporal(settings: "Settings") -> Part:
    from domain.devserver import arguments

    temporal = settings.temporal
    host, _, port = temporal.address.rpartition(":")
    command = [
        _program("temporal"),
        *arguments(
            ip=host,
            port=int(port),
            ui_port=temporal.ui_port,
            metrics_port=temporal.metrics_port,
            database_file=str(settings.state / "temporal.db"),
            codec=f"http://{settings.http_address}/codec",
        ),
    ]
    listens = {
        "WINDLASS_TEMPORAL__ADDRESS": temporal.address,
        "WINDLASS_TEMPORAL__UI_PORT": f"{host}:{temporal.ui_port}",
        "WINDLASS_TEMPORAL__METRICS_PORT": f"{host}:{temporal.metrics_port}",
    }
    return Part("temporal", command, lambda: listening(temporal.address), listens)


def _simulated_site(settings: "Settings") -> Part:
    address = f"{settings.site.host}:{settings.site.port}"
    url = f"http://{address}/MAAS/api/2.0/version/"
    command = [sys.executable, "-m", "sim"]
    return Part("site", command, lambda: answers(url), {"WINDLASS_SITE__PORT": address})


def _api(settings: "Settings") -> Part:
    listens = {
        "WINDLASS_GRPC_ADDRESS": settings.grpc_address,
        "WINDLASS_HTTP_ADDRESS": settings.http_address,
    }
    url = f"http://{settings.http_address}/readyz"
    beside = {"WINDLASS_NODES__LOCAL": "true"} if settings.agent.embedded else {}
    return Part("api", [sys.executable, "-m", "api"], lambda: answers(url), listens, beside)


def _worker(settings: "Settings") -> Part:
    address = f"{settings.worker.metrics_host}:{settings.worker.metrics_port}"
    found = find_spec("worker")
    if found is None or found.origin is None:
        raise Complaint("worker.py is not installed", do="make .venv")
    listens = {"WINDLASS_WORKER__METRICS_PORT": address}
    return Part("worker", [sys.executable, found.origin], lambda: listening(address), listens)


def _cloudlets() -> Part:
    """The resource managers. Whoever places something there waits until they are connected."""
    named = [word for name in NAMES for word in ("--cloudlet", f"{OPERATOR}/{name}")]
    return Part("cloudlets", [sys.executable, "-m", "sim", "crm", *named], _at_once)


async def _at_once() -> bool:
    return True


def _program(name: str) -> str:
    """A program that came with our packages, or one on PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise Complaint(
            f"the program {name} is missing",
            do="make .venv installs it, or set WINDLASS_TEMPORAL__EMBEDDED=false and "
            "WINDLASS_TEMPORAL__ADDRESS to a server of your own",
        )
    return found


async def migrate() -> None:
    """Bring the database to the newest tables before anybody opens it."""
    await _stored("migrate")


async def _stored(command: str) -> str:
    """What `python -m store` has to say to that."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "store", command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate()
    if process.returncode:
        raise Complaint(
            "the database could not be brought up to date",
            lines=(said + complained).decode(errors="replace").splitlines()[-5:],
            do=f"python -m store {command} shows it alone",
        )
    return said.decode().strip()


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Hold the folder's state: two sites on one state would be two truths."""
    os.umask(0o077)  # what the parts of the site write is for nobody else to read
    path = _made(state) / "up.lock"
    try:
        file = path.open("a+")
    except OSError as error:
        raise _unwritable(state, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise Complaint(
                f"windlass is up already in this folder (process {file.read().strip() or '?'})",
                do="use it as it is, or stop it first with Ctrl-C there",
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def _unwritable(folder: Path, error: OSError) -> Complaint:
    return Complaint(
        f"{folder.absolute()} cannot be written: {error.strerror}",
        do="run this where you may write, or set WINDLASS_STATE to a folder of yours",
    )
