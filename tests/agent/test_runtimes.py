"""One suite for all runtimes: whatever carries pods keeps these promises."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from agent.podman.runtime import RIGHTS, Podman
from agent.process import Processes
from agent.runtime import Condition, PortMap, Runtime, Spec
from agent.simulated import Simulated
from domain.errors import Conflict, DomainError, Forbidden, Overdue, Unavailable
from domain.logline import Joiner, Line
from domain.placement import Amounts
from domain.registries import Credentials
from tests.agent import containers
from tests.agent.containers import block, fetched, limits, podman_in, working
from tests.agent.registry import LACKING, program, registry
from tests.support.load import limit

PATIENCE_SECONDS = 20.0
RUNTIMES = ("simulated", "process", "podman")
BLOCK = block(79)
SUBNET = f"{BLOCK}.0/24"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = containers.folder("runtimes")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module", params=RUNTIMES)
async def runtime(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Runtime]:
    made: dict[str, Runtime] = {
        "simulated": Simulated(folder=folder),
        "process": Processes(folder, commands=True),
        "podman": podman_in(folder),
    }
    runtime = made[request.param]
    if isinstance(runtime, Podman):
        await working(runtime)
    try:
        await runtime.open(SUBNET)
        yield runtime
        for seen in await runtime.list():
            await runtime.remove(seen.pod)
    finally:
        await runtime.close()


def order(program: str, **more: object) -> Spec:
    pod = str(uuid4())
    return Spec.model_validate(
        {"pod": pod, "instance": "i", "name": "x", "uri": f"builtin:{program}", **more}
    )


async def begun(runtime: Runtime, spec: Spec) -> str:
    await runtime.fetch(spec.uri)
    await runtime.create(spec)
    await runtime.start(spec.pod)
    return spec.pod


async def condition(runtime: Runtime, pod: str) -> Condition:
    return (await runtime.inspect(pod)).condition


async def said(runtime: Runtime, pod: str, lines: int) -> list[Line]:
    """What a pod has said once it has said so much."""
    log = (await runtime.inspect(pod)).log
    assert log is not None
    async with limit(PATIENCE_SECONDS):
        while True:
            found = list(Joiner().read(log.read_bytes())) if log.exists() else []
            if len(found) >= lines:
                return found
            await asyncio.sleep(0.02)


async def test_a_pod_runs_until_it_is_stopped_and_can_be_started_again(runtime: Runtime) -> None:
    """K-06: it is in the list. Asking twice is asking once."""
    spec = order("idle")
    pod = await begun(runtime, spec)
    await runtime.create(spec)
    await runtime.start(pod)
    seen = await runtime.inspect(pod)
    assert (seen.condition, seen.pid > 1, bool(seen.cgroup)) == (Condition.RUNNING, True, True)
    assert pod in {each.pod for each in await runtime.list()}
    assert (await runtime.usage(pod)).cpu >= 0, "K-07: a finite number"

    await runtime.stop(pod, 10)
    await runtime.stop(pod, 10)
    stopped = await runtime.inspect(pod)
    assert (stopped.condition, stopped.cgroup) == (Condition.EXITED, "")
    assert stopped.exit_code in {137, 143}
    await runtime.start(pod)
    assert await condition(runtime, pod) is Condition.RUNNING

    await runtime.remove(pod)
    await runtime.remove(pod)
    assert await condition(runtime, pod) is Condition.GONE
    assert pod not in {each.pod for each in await runtime.list()}


async def test_how_it_ended_is_known_and_what_it_said(runtime: Runtime) -> None:
    pod = await begun(runtime, order("exit", environment=(("CODE", "3"),)))
    async with limit(PATIENCE_SECONDS):
        seen = await runtime.wait(pod)
    assert (seen.condition, seen.exit_code, seen.oom) == (Condition.EXITED, 3, False)
    assert seen.finished_ns >= seen.started_ns > 0
    (line,) = await said(runtime, pod, 1)
    assert (line.stream, line.text) == ("stdout", "ending with 3")
    assert seen.started_ns - 10**9 < line.time_ns < seen.finished_ns + 10**9
    again = await runtime.wait(pod)
    assert (again.condition, again.exit_code) == (Condition.EXITED, 3), "as often as one asks"
    with pytest.raises(Conflict):
        await runtime.exec(pod, ["echo"], 20)


async def test_k27_the_environment_reaches_the_program_as_it_is(runtime: Runtime) -> None:
    """A value may hold what a shell would take for its own."""
    told = (("A", "b=c"), ("EVIL", "$(touch /tmp/x); `id`"))
    pod = await begun(runtime, order("env", environment=told))
    wanted = {"A=b=c", "EVIL=$(touch /tmp/x); `id`"}
    heard: set[str] = set()
    for lines in range(1, 10):
        if not wanted <= heard:
            heard = {line.text for line in await said(runtime, pod, lines)}
    assert wanted <= heard


async def test_who_takes_more_memory_than_it_may_is_ended(runtime: Runtime) -> None:
    spec = order("eater", limits=Amounts(cpu=0, memory=24))
    async with limit(PATIENCE_SECONDS * 2):
        seen = await runtime.wait(await begun(runtime, spec))
    assert (seen.exit_code, seen.oom) == (137, True)


async def test_a_command_is_run_beside_it(runtime: Runtime) -> None:
    pod = await begun(runtime, order("idle"))
    output = await runtime.exec(pod, ["echo", "a  b", "$HOME"], 20)
    assert (output.exit_code, output.stdout) == (0, b"a  b $HOME\n")
    assert (await runtime.exec(pod, ["sh", "-c", "exit 5"], 20)).exit_code == 5
    assert (await runtime.exec(pod, ["no-such-program"], 20)).exit_code == 127
    await runtime.remove(pod)


async def test_images_are_there_once_and_what_is_none_is_refused(runtime: Runtime) -> None:
    first, second = await asyncio.gather(
        runtime.fetch("builtin:idle"), runtime.fetch("builtin:idle")
    )
    assert first.id == second.id
    assert [image.id for image in await runtime.images()].count(first.id) == 1
    assert first.id.startswith("sha512-")
    assert len(first.id) == len("sha512-") + 64
    for wrong in ("builtin:none", "ftp://x/y", "file://etc/x", "docker://"):
        with pytest.raises(DomainError):
            await runtime.fetch(wrong)


async def test_k27_a_container_is_reached_on_its_port_and_has_few_rights(runtime: Runtime) -> None:
    """What is told of limits is asked of its cgroup, and of rights of the container itself."""
    if not isinstance(runtime, Podman):
        pytest.skip("it has no walls")
    told = {"environment": (("GREETING", "hi there"),), "limits": Amounts(cpu=250, memory=64)}
    port = PortMap(source=0, destination=80)
    pod = await begun(runtime, order("web", ports=(port,), **told))
    seen = await runtime.inspect(pod)
    (mapped,) = seen.ports
    assert (mapped.destination, seen.ip.startswith(f"{BLOCK}.")) == (80, True)
    answer = b""
    for _ in range(200):
        if b"hi there" not in answer:
            await asyncio.sleep(0.05)
            answer = await fetched("127.0.0.1", mapped.source)
    assert b"hi there" in answer
    assert limits(seen.cgroup) == (64 * 10**6, 250)
    status = (await runtime.exec(pod, ["cat", "/proc/1/status"], 20)).stdout.decode()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["NoNewPrivs"].strip() == "1"
    assert bin(int(facts["CapBnd"], 16)).count("1") == len(RIGHTS)
    with pytest.raises(Forbidden):
        await runtime.fetch("file:///etc/passwd")
    await runtime.remove(pod)


async def test_images_come_from_a_registry_to_those_who_may(runtime: Runtime, folder: Path) -> None:
    """The registry is Debian's, on loopback; the image is one of ours, pushed there before."""
    if not isinstance(runtime, Podman):
        pytest.skip("it has no images")
    if program() is None:
        pytest.skip(LACKING)
    async with registry(folder / "registry") as (address, known):
        built = await runtime.fetch("builtin:ticker")  # no other test runs it
        reference = f"{address}/team/ticker"
        await pushed(runtime, "windlass.local/ticker:latest", reference, known)
        await runtime.remove_image(built.id)
        assert built.id not in {image.id for image in await runtime.images()}
        uri = f"docker://{reference}:latest"
        for wrong in ("", known.model_copy(update={"password": "no"}).carried()):
            with pytest.raises(DomainError, match=r"authentication required|unauthorized"):
                await runtime.fetch(uri, wrong)
        image = await runtime.fetch(uri, known.carried())
        assert (image.name, image.version) == (reference, "latest")
        assert await runtime.fetch(uri) == image, "it is here: nobody is asked"
        pod = order("ticker", uri=uri, command=("sh", "-c", "exit 3"))
        await runtime.create(pod)
        await runtime.start(pod.pod)
        async with limit(PATIENCE_SECONDS):
            assert (await runtime.wait(pod.pod)).exit_code == 3
        with pytest.raises(DomainError):
            await runtime.remove_image(image.id)  # a pod is made of it
        await runtime.remove(pod.pod)
        again = Podman("again", folder)  # as its agent is started anew, and remembers nothing
        await again.open("")
        await again.remove_image(image.id)
        await again.close()
        assert image.id not in {image.id for image in await runtime.images()}


async def test_an_archive_that_was_put_there_is_an_image(runtime: Runtime, folder: Path) -> None:
    """In either form that podman saves images in."""
    if not isinstance(runtime, Podman):
        pytest.skip("it has no images")
    built = await runtime.fetch("builtin:web")  # of which no pod is left
    for form, scheme in (("oci-archive", "oci-archive:"), ("docker-archive", "file://")):
        path = folder / "archives" / f"{form}.tar"
        path.write_bytes(await saved(runtime, "windlass.local/web:latest", form))
        await runtime.remove_image(built.id)
        assert built.id not in {image.id for image in await runtime.images()}
        image = await runtime.fetch(f"{scheme}{path}")
        assert (image.name, image.version) == ("windlass.local/web", "latest")
        told = {"uri": f"{scheme}{path}", "environment": (("A", "b=c"),)}
        pod = await begun(runtime, order("web", command=("sh", "-c", "echo $A; exit 4"), **told))
        async with limit(PATIENCE_SECONDS):
            assert (await runtime.wait(pod)).exit_code == 4
        assert [line.text for line in await said(runtime, pod, 1)] == ["b=c"]
        await runtime.remove(pod)
        built = image


async def saved(podman: Podman, image: str, form: str) -> bytes:
    answer = await podman._rest.ask("GET", f"/images/{image}/get", asked={"format": form})
    return answer.content


async def pushed(podman: Podman, image: str, reference: str, known: Credentials) -> None:
    repository, tag = {"repo": reference, "tag": "latest"}, {"X-Registry-Auth": known.carried()}
    await podman._rest.ask("POST", f"/images/{image}/tag", asked=repository)
    where = {"destination": f"{reference}:latest", "tlsVerify": "false"}
    path = f"/images/{reference}:latest"
    await podman._rest.ask("POST", f"{path}/push", asked=where, headers=tag, seconds=60)


async def test_podmans_service_is_begun_again_when_it_dies(runtime: Runtime) -> None:
    if not isinstance(runtime, Podman):
        pytest.skip("it has no service")
    pod = await begun(runtime, order("idle"))
    process = runtime._service._process
    assert process is not None
    process.kill()
    await process.wait()
    async with limit(PATIENCE_SECONDS):
        while True:
            with suppress(Unavailable):
                assert await condition(runtime, pod) is Condition.RUNNING
                break
            await asyncio.sleep(0.05)
    await runtime.remove(pod)


async def test_a_process_that_was_given_the_id_of_one_that_died_is_not_taken_for_it(
    runtime: Runtime,
) -> None:
    """As when container and watcher were killed: podman goes on saying that it runs."""
    if not isinstance(runtime, Podman):
        pytest.skip("it asks the processes themselves")
    pod = await begun(runtime, order("idle"))
    told = await runtime._rest.get(f"/containers/{pod}/json")
    assert runtime._seen(pod, told).condition is Condition.RUNNING
    alive = {"Pid": told["State"]["Pid"], "ConmonPid": told["State"]["ConmonPid"]}
    other = {"Pid": os.getpid(), "ConmonPid": os.getppid()}
    for state, lost in (
        (alive, False),
        (other | {"ConmonPid": alive["ConmonPid"]}, False),  # who will say how it ended
        (other | {"Pid": alive["Pid"]}, False),
        (other, True),
    ):
        seen = runtime._seen(pod, told | {"State": told["State"] | state})
        assert (seen.condition is Condition.EXITED, seen.lost) == (lost, lost)
    await runtime.remove(pod)


async def test_nothing_stays_of_a_command_beside_a_pod(runtime: Runtime, folder: Path) -> None:
    """By itself podman has its watcher stay for five minutes."""
    if not isinstance(runtime, Podman):
        pytest.skip("nobody watches its commands")
    pod = await begun(runtime, order("idle"))
    before = watchers(folder)
    await runtime.exec(pod, ["echo"], 20)
    async with limit(PATIENCE_SECONDS):
        while watchers(folder) - before:  # noqa: ASYNC110 - processes tell nobody of their end
            await asyncio.sleep(0.05)
    await runtime.remove(pod)


@pytest.mark.parametrize("how", ["its time is up", "nobody waits for it any more"])
async def test_a_command_ends_with_its_call(runtime: Runtime, how: str) -> None:
    """And so does what it began, which may hold on to what it writes to."""
    if isinstance(runtime, Simulated):
        pytest.skip("its commands take no time")
    pod, mark = await begun(runtime, order("idle")), uuid4().hex
    command = ["sh", "-c", "sh -c 'sleep 300; true' $0; true", mark]
    seconds = 5.0 if how == "its time is up" else 300.0
    call = asyncio.create_task(runtime.exec(pod, command, seconds))
    async with limit(PATIENCE_SECONDS):
        while len(marked(mark)) < 2:  # noqa: ASYNC110 - processes tell nobody of their beginning
            await asyncio.sleep(0.02)
        if how == "its time is up":
            with pytest.raises(Overdue):
                await call
        else:
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        while marked(mark):  # noqa: ASYNC110 - nor of their end
            await asyncio.sleep(0.02)
    assert await condition(runtime, pod) is Condition.RUNNING
    await runtime.remove(pod)


def marked(word: str) -> set[int]:
    """The processes that have this among their arguments, and run."""
    found = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


def watchers(folder: Path) -> set[int]:
    """The processes of conmon that look after something of ours."""
    found = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if b"conmon" in words.partition(b"\0")[0] and str(folder).encode() in words:
                found.add(int(process.name))
    return found
