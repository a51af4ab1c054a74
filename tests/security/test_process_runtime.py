"""A3: on a node without containers whoever creates instances runs the programs that are built in,
and nothing else."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent.choosing import Choice, chosen
from agent.podman.runtime import Podman
from agent.process import Processes
from agent.runtime import Condition, Spec
from agent.simulated import Simulated
from domain.errors import Forbidden, Unavailable
from settings import Agent


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    made = Processes(tmp_path)
    await made.open("")
    yield made
    for seen in await made.list():
        await made.remove(seen.pod)
    await made.close()


def ordered(program: str = "idle", **more: Any) -> Spec:
    told = {"pod": str(uuid4()), "instance": "i", "name": "x", "uri": f"builtin:{program}"}
    return Spec.model_validate(told | more)


FOREIGN: tuple[dict[str, Any], ...] = (
    {"command": ("sh", "-c", "id")},
    {"probe": ("sh", "-c", "id")},
    {"environment": (("BASH_FUNC_sleep%%", "() { id; }"),)},
    {"environment": (("LD_PRELOAD", "/var/evil.so"),)},
    {"environment": (("PATH", "/var"),)},
    {"environment": (("PYTHONPATH", "/var"),)},
    {"environment": (("ENV", "/var/evil"),)},
)


@pytest.mark.parametrize("more", FOREIGN, ids=str)
async def test_no_order_makes_a_process_run_another_program(
    processes: Processes, more: dict[str, Any]
) -> None:
    spec = ordered(**more)
    with pytest.raises(Forbidden) as refusal:
        await processes.create(spec)
    assert refusal.value.reason == "PROCESS_RUNS_NO_COMMANDS"
    assert (await processes.inspect(spec.pod)).condition is Condition.GONE


async def test_no_command_is_run_beside_a_process(processes: Processes) -> None:
    spec = ordered()
    await processes.create(spec)
    await processes.start(spec.pod)
    with pytest.raises(Forbidden):
        await processes.exec(spec.pod, ["id"], 20)
    assert (await processes.inspect(spec.pod)).condition is Condition.RUNNING


async def test_a_built_in_program_still_gets_its_parameters(processes: Processes) -> None:
    spec = ordered("exit", environment=(("CODE", "3"), ("_any_Name1", "x")))
    await processes.create(spec)
    await processes.start(spec.pod)
    assert (await processes.wait(spec.pod)).exit_code == 3


async def test_development_may_allow_commands(tmp_path: Path) -> None:
    processes = Processes(tmp_path, commands=True)
    await processes.open("")
    spec = ordered(command=("sh", "-c", "exit 7"))
    await processes.create(spec)
    await processes.start(spec.pod)
    assert (await processes.wait(spec.pod)).exit_code == 7
    await processes.remove(spec.pod)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_no_two_instances_share_a_user(processes: Processes, tmp_path: Path) -> None:
    """Of one user each could signal, trace and read the other."""
    specs = [ordered(), ordered()]
    users = set[int]()
    for spec in specs:
        await processes.create(spec)
        await processes.start(spec.pod)
        pid = (await processes.inspect(spec.pod)).pid
        users.add(os.stat(f"/proc/{pid}").st_uid)
        work = os.stat(tmp_path / "pods" / spec.pod / "work")
        assert (work.st_uid in users, work.st_mode & 0o077) == (True, 0)
    assert len(users) == 2
    assert not users & {0, 65534}


async def fails(_: Podman) -> str:
    return "no containers here"


async def test_auto_fails_where_podman_does_not_work(tmp_path: Path) -> None:
    """Falling back by itself gave every tenant the host."""
    with pytest.raises(Unavailable, match="no containers here"):
        await chosen(Choice(wanted="auto"), "n1", tmp_path, prove=fails)
    with pytest.raises(Unavailable):
        await chosen(Choice(wanted="podman", fallback=True), "n1", tmp_path, prove=fails)
    runtime, why = await chosen(Choice(fallback=True), "n1", tmp_path, prove=fails)
    assert isinstance(runtime, Processes)
    assert why == "podman cannot be used: no containers here"
    simulated, _ = await chosen(Choice(wanted="simulated"), "n1", tmp_path, prove=fails)
    assert isinstance(simulated, Simulated)


def test_nothing_of_this_is_allowed_unless_it_is_set() -> None:
    assert (Agent().process_fallback, Agent().process_commands) == (False, False)
