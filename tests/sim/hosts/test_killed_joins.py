"""A site that is killed in the middle of a join: the node comes up as its host does."""

from pathlib import Path

import pytest

from domain.machine import Role
from sim.hosts.host import Kind
from sim.pace import HandClock, Pace
from tests.metal import metal, until
from tests.sim.hosts.test_kubeadm import Desk

JOB = "systemd-run --unit=windlass-join --collect sh -c 'kubeadm join --config /c'"
SLOW = Pace(boot=0, cloud_init=0, initialise=0, join=100, node_ready=0)


@pytest.mark.parametrize("role", [Role.WORKER, Role.CONTROL_PLANE])
@pytest.mark.parametrize("phases", range(1, 5))
async def test_a_node_whose_join_is_carried_on_becomes_ready(
    tmp_path: Path, phases: int, role: Role
) -> None:
    clock = HandClock()
    async with metal(path=tmp_path / "site", clock=clock, pace=SLOW) as before:
        desk = Desk(before, clock)
        first, second = await desk.found(), await before.install("n-2", role=role)
        uid = desk.cluster(first).uid
        before.clusters.network_applied(uid)
        await desk.invite(second, first)
        await desk.do(second, JOB)
        runs = before.host(second).state.kubeadm.runs
        while not runs or runs[0].phase < phases:
            await clock.turn(10)
        assert desk.kind(second) is Kind.PARTIAL
    async with metal(path=tmp_path / "site", clock=clock, pace=SLOW, like=before) as after:
        host = after.host(second)
        await until(lambda: bool(host.state.units))
        while host.state.units:
            await clock.turn(10)
        assert host.state.kubeadm.runs[0].result == "ok"
        assert after.clusters.node_ready(uid, "n-2")
