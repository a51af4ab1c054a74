"""Simulated hosts over their sockets: power, first boot, logins, faults, and what a kill leaves."""

import asyncio
import socket
from pathlib import Path

import asyncssh
import pytest

from sim.faults import Fault, How
from sim.hosts.host import Kind
from sim.pace import HandClock, Pace
from tests.metal import Metal, login, metal, typed, until

SLOW = Pace(boot=5, cloud_init=10, initialise=0, join=0, node_ready=0)
JOB = "sudo systemd-run --unit=windlass-init --collect sh -c"


def answers(site: Metal, address: str) -> bool:
    """Whether anybody takes a connection there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, site.port)) == 0


async def test_a_host_answers_after_its_boot_and_settles_later() -> None:
    clock = HandClock()
    async with metal(clock=clock, pace=SLOW) as site:
        machine = site.machine("cp-1")
        host = await site.boot(machine)
        await clock.turn(4)
        assert not answers(site, machine.address)
        await clock.turn(1)
        await until(lambda: answers(site, machine.address))
        async with login(site, machine) as connection:
            status = await connection.run("cloud-init status")
            assert (status.stdout, status.exit_status) == ("status: running\n", 0)
            assert (await connection.run("kubeadm version")).exit_status == 127
            await clock.turn(10)
            await until(lambda: host.state.settled)
            assert (await connection.run("cloud-init status")).stdout == "status: done\n"
            assert (await connection.run("kubeadm version -o short")).stdout == "v1.31.4\n"


async def test_a_first_boot_can_go_wrong() -> None:
    async with metal() as site:
        host = await site.boot(site.machine("cp-1"), "#cloud-config\nruncmd: ['true', 'false']\n")
        await until(lambda: host.state.settled)
        status, out, _ = await typed(host, "cloud-init status --format json", user="root")
        assert status == 1
        assert '"status": "error"' in out
        assert "runcmd ended with 1" in out


async def test_user_data_says_who_may_log_in() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        async with login(site, machine) as connection:
            assert (await connection.run("whoami")).stdout == "windlass\n"
        with pytest.raises(asyncssh.PermissionDenied):
            async with login(site, machine, user="ubuntu"):
                pass


async def test_a_host_without_power_does_not_answer_and_keeps_its_disk() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        boot_id = "cat /proc/sys/kernel/random/boot_id"
        async with login(site, machine) as connection:
            first = (await connection.run(f"echo kept > f; {boot_id}")).stdout
            await site.hosts.power_off(machine.system_id)
            await connection.wait_closed()
        assert not answers(site, machine.address)
        await site.hosts.power_on(machine.system_id)
        await until(lambda: answers(site, machine.address))
        async with login(site, machine) as connection:
            assert (await connection.run("cat f")).stdout == "kept\n"
            assert str((await connection.run(boot_id)).stdout) != str(first)


async def test_a_redeployed_host_has_another_key_and_an_empty_disk() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        key = site.host(machine).state.host_key
        await typed(site.host(machine), "echo gone > f")
        await site.hosts.wipe(machine.system_id)
        assert not answers(site, machine.address)
        assert site.hosts.host(machine.system_id) is None
        host = await site.boot(machine)
        await until(lambda: host.state.settled)
        assert host.state.host_key != key
        assert (await typed(host, "cat f"))[0] == 1


async def test_wiping_or_switching_what_is_not_there_changes_nothing() -> None:
    async with metal() as site:
        await site.hosts.wipe("nobody")
        await site.hosts.power_on("nobody")
        await site.hosts.power_off("nobody")
        nothing: dict[str, object] = {
            "installed": [],
            "hosts": {},
            "cordoned": [],
            "nodes": [],
            "violations": [],
        }
        assert site.hosts.inspect() == nothing


async def test_files_go_by_sftp_as_the_user_who_logged_in() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        async with login(site, machine) as connection, connection.start_sftp_client() as sftp:
            async with sftp.open("a", "wb", asyncssh.SFTPAttrs(permissions=0o600)) as file:
                await file.write(b"\x00\xff" * 50_000)
                await file.fsync()
            await sftp.posix_rename("a", "b")
            assert (await sftp.stat("b")).size == 100_000
            assert (await sftp.stat("b")).permissions == 0o100600
            async with sftp.open("b", "rb") as file:
                data: object = await file.read()
            assert data == b"\x00\xff" * 50_000
            with pytest.raises(asyncssh.SFTPPermissionDenied):
                await sftp.open("/etc/mine", "wb")
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await sftp.stat("nowhere")
            with pytest.raises(asyncssh.SFTPOpUnsupported):
                await sftp.readlink("b")
            assert set(await sftp.listdir("/home/windlass")) == {".", ".ssh", "b"}
            await sftp.remove("b")


@pytest.mark.parametrize("how", [How.REFUSE, How.DROP])
async def test_a_connection_can_be_refused(how: How) -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        site.faults.add(Fault(where=f"ssh connect {machine.system_id}", how=how))
        with pytest.raises((asyncssh.ConnectionLost, ConnectionError)):
            async with login(site, machine):
                pass
        async with login(site, machine) as connection:
            assert (await connection.run("true")).exit_status == 0


async def test_output_can_end_at_a_line() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        site.faults.add(Fault(where="ssh exec id-cp-1 echo 1", how=How.DROP, line=2))
        async with login(site, machine) as connection:
            result = await connection.run("echo 1; echo 2; echo 3; touch f")
            assert result.exit_status is None
            assert result.stdout == "1\n2\n"


async def test_an_answer_can_get_lost_after_the_work() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        site.faults.add(Fault(where="ssh exec * echo *", how=How.HALF))
        async with login(site, machine) as connection:
            assert (await connection.run("echo x > f")).exit_status is None
        assert site.host(machine).disk.exists("/home/windlass/f")


async def test_a_command_can_be_refused_or_hang() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        refusal = Fault(where="ssh exec * true", how=How.REFUSE, status=9, message="not today")
        site.faults.add(refusal)
        site.faults.add(Fault(where="ssh exec * false", how=How.HANG))
        async with login(site, machine) as connection:
            refused = await connection.run("true")
            assert (refused.exit_status, refused.stderr) == (9, "not today\n")
            with pytest.raises(asyncssh.TimeoutError):
                await connection.run("false", timeout=0.05)


async def test_a_reboot_ends_what_runs() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        host = site.host(machine)
        await typed(host, f"{JOB} 'sleep 60'")
        boot = host.state.boot_id
        async with login(site, machine) as connection:
            result = await connection.run("sudo reboot; sleep 60")
            assert result.exit_status is None
        await until(lambda: host.state.boot_id != boot and answers(site, machine.address))
        assert host.state.units == {}


async def test_a_killed_site_finds_its_hosts_again(tmp_path: Path) -> None:
    async with metal(path=tmp_path / "site") as before:
        machine = await before.install("cp-1")
        off = await before.install("cp-2")
        await before.hosts.power_off(off.system_id)
        await typed(before.host(machine), "echo kept > f")
        state = before.host(machine).state
    async with metal(path=tmp_path / "site", like=before) as after:
        await until(lambda: answers(after, machine.address))
        again = after.host(machine).state
        assert (again.host_key, again.boot_id) == (state.host_key, state.boot_id)
        async with login(after, machine) as connection:
            assert (await connection.run("cat f")).stdout == "kept\n"
        assert not answers(after, off.address)


async def test_a_job_is_carried_on_after_a_kill(tmp_path: Path) -> None:
    """The run of kubeadm is in the middle of things when the process goes."""
    clock = HandClock()
    pace = Pace(boot=0, cloud_init=0, initialise=100, node_ready=0)
    script = "mkdir j || exit 0; kubeadm init > j/out 2>&1; echo $? > j/rc.new; mv j/rc.new j/rc"
    async with metal(path=tmp_path / "site", clock=clock, pace=pace) as before:
        machine = await before.install("cp-1")
        host = before.host(machine)
        await typed(host, f"{JOB} '{script}'")
        for _ in range(6):
            await clock.turn(10)
        assert host.state.kubeadm.kind is Kind.PARTIAL
        phase = host.state.kubeadm.runs[0].phase
        assert phase > 2
        cluster = host.state.kubeadm.cluster
    async with metal(path=tmp_path / "site", clock=clock, pace=pace, like=before) as after:
        host = after.host(machine)
        await until(lambda: bool(host.state.units))
        assert host.state.kubeadm.runs[0].phase == phase
        for _ in range(10):
            await clock.turn(10)
        await until(lambda: not host.state.units)
        assert host.disk.read("/j/rc") == b"0\n"
        assert b"initialized successfully" in host.disk.read("/j/out")
        assert host.disk.read("/j/out").count(b"Running pre-flight checks") == 1
        assert after.runs(machine) == [("init", "ok")]
        assert host.state.kubeadm.cluster == cluster
        assert after.clusters.alive(cluster)
        assert after.hosts.inspect()["violations"] == []


async def test_what_ran_in_a_shell_dies_with_the_site(tmp_path: Path) -> None:
    clock = HandClock()
    pace = Pace(boot=0, cloud_init=0, initialise=100)
    async with metal(path=tmp_path / "site", clock=clock, pace=pace) as before:
        machine = await before.install("cp-1")
        async with login(before, machine) as connection:
            await connection.create_process("sudo kubeadm init")
            await until(lambda: bool(before.host(machine).state.kubeadm.runs))
    async with metal(path=tmp_path / "site", clock=clock, pace=pace, like=before) as after:
        assert after.runs(machine) == [("init", "killed")]


async def test_secrets_on_a_command_line_are_noticed() -> None:
    async with metal() as site:
        machine = await site.install("cp-1")
        async with login(site, machine) as connection:
            await connection.run(f"sudo kubeadm join --token abcdef.{'0' * 16}")
            await connection.run(f"echo {'a1' * 32}")
            await connection.run(f"echo sha256:{'a1' * 32} 1.2.3-abc x.{'z' * 16}")
        seen = site.hosts.inspect()["violations"]
        assert any("a bootstrap token" in text for text in seen)
        assert any("a certificate key" in text for text in seen)
        assert len([text for text in seen if "certificate key" in text]) == 2  # line and command


async def test_many_hosts_answer_at_once() -> None:
    async with metal() as site:
        machines = await asyncio.gather(*(site.install(f"w-{n}") for n in range(20)))

        async def name(number: int) -> str:
            async with login(site, machines[number]) as connection:
                return str((await connection.run("hostname")).stdout)

        names = await asyncio.gather(*(name(number) for number in range(20)))
        assert names == [f"w-{number}\n" for number in range(20)]
