"""Our SSH client against simulated hosts: what it promises, and what a bad line may not break."""

import asyncio
import logging
import re
import secrets
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncssh
import pytest

from clients.ssh import SshNodes, inside
from clients.ssh.connections import HOST_KEY_CHANGED, LOGIN_REFUSED
from domain.errors import Conflict, Failed, NotFound, Unavailable
from domain.machine import Machine, Role
from domain.ports import host_key, kubeconfig, ssh_key
from sim.clusters import authority
from sim.faults import Fault, How
from sim.pace import HandClock, Pace
from tests.clients.cluster import founding, insist, joining
from tests.metal import Metal, metal, typed, until
from tests.support.load import limit
from tests.vaults import MemoryBackups, MemoryVault

INIT_LINES = 19
SECRET = re.compile(rb"\b[a-z0-9]{6}\.[a-z0-9]{16}\b|(?<!sha256:)\b[0-9a-f]{64}\b")


class Crew:
    """A site and the client that works on it."""

    def __init__(self, site: Metal) -> None:
        self.site = site
        self.vault = MemoryVault()
        self.vault.secrets[ssh_key(site.cluster_uid)] = site.key.export_private_key()
        self.nodes = SshNodes(self.vault, MemoryBackups(), port=site.port, voter_seconds=10)

    async def first(self) -> Machine:
        """A cluster of one."""
        machine = await self.site.install("cp-1")
        await self.nodes.initialise(founding(machine))
        (cluster,) = self.site.clusters.all()
        self.site.clusters.network_applied(cluster.uid)
        return machine

    def fault(self, where: str, how: How, **more: object) -> None:
        self.site.faults.add(Fault.model_validate({"where": where, "how": how, **more}))

    @property
    def violations(self) -> list[str]:
        violations: list[str] = self.site.hosts.inspect()["violations"]
        return violations


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    async with metal() as site:
        crew = Crew(site)
        yield crew
        await crew.nodes.close()


async def test_a_host_is_reached_once_its_first_boot_is_over() -> None:
    clock = HandClock()
    async with metal(clock=clock, pace=Pace(boot=5, cloud_init=10)) as site:
        crew = Crew(site)
        machine = site.machine("cp-1")
        host = await site.boot(machine)
        assert not await crew.nodes.reach(machine)
        await clock.turn(5)
        await until(lambda: host_key(machine) in crew.vault.secrets or not host.state.settled)
        assert not await crew.nodes.reach(machine)
        await clock.turn(10)
        await until(lambda: host.state.settled)
        assert await crew.nodes.reach(machine)
        await crew.nodes.close()


async def test_a_first_boot_that_went_wrong_is_final(crew: Crew) -> None:
    machine = crew.site.machine("cp-1")
    public = machine.slot.public_key
    user = f"{{name: windlass, ssh_authorized_keys: ['{public}']}}"
    host = await crew.site.boot(machine, f"#cloud-config\nusers: [{user}]\nruncmd: ['false']\n")
    await until(lambda: host.state.settled)
    with pytest.raises(Failed, match="went wrong: runcmd ended with 1"):
        await crew.nodes.reach(machine)


async def test_a_refused_key_is_heard_of(crew: Crew) -> None:
    machine = crew.site.machine("cp-1")
    host = await crew.site.boot(machine, "#cloud-config\n{}\n")
    await until(lambda: host.state.settled)
    with pytest.raises(Unavailable, match="refused windlass's key") as caught:
        await crew.nodes.reach(machine)
    assert caught.value.reason == LOGIN_REFUSED


async def test_a_late_step_does_not_get_in_with_the_key_of_who_has_the_machine_now(
    crew: Crew,
) -> None:
    machine = await crew.site.install("cp-1")
    assert await crew.nodes.reach(machine)
    crew.vault.secrets[ssh_key("gone")] = asyncssh.generate_private_key(
        "ssh-ed25519"
    ).export_private_key()
    slot = machine.slot.model_copy(update={"cluster_uid": "gone", "name": "cp-2"})
    with pytest.raises(Unavailable) as caught:
        await crew.nodes.reset(machine.model_copy(update={"slot": slot}))
    assert caught.value.reason == LOGIN_REFUSED


async def test_a_host_that_does_not_answer_is_not_waited_for_long(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    nodes = SshNodes(crew.vault, MemoryBackups(), port=crew.site.port, connect_seconds=0.1)
    crew.fault("ssh connect *", How.HANG, times=5)
    assert not await nodes.reach(machine)
    await nodes.close()


async def test_a_host_key_is_pinned_at_first_contact(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    assert await crew.nodes.reach(machine)
    shown = asyncssh.import_private_key(crew.site.host(machine).state.host_key)
    pinned = asyncssh.import_public_key(crew.vault.secrets[host_key(machine)])
    assert pinned == shown.convert_to_public()


async def test_another_host_key_is_final(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    assert await crew.nodes.reach(machine)
    host = await crew.site.boot(machine)
    await until(lambda: host.state.settled)
    with pytest.raises(Failed, match="another host key") as caught:
        await insist(lambda: crew.nodes.reset(machine))
    assert caught.value.reason == HOST_KEY_CHANGED


async def test_without_a_key_there_is_no_login(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    del crew.vault.secrets[ssh_key(machine.slot.cluster_uid)]
    with pytest.raises(NotFound):
        await crew.nodes.reach(machine)


@pytest.mark.parametrize("change", [{"address": "-oProxyCommand=x"}, {"address": "example.org"}])
async def test_only_addresses_are_connected_to(crew: Crew, change: dict[str, str]) -> None:
    machine = (await crew.site.install("cp-1")).model_copy(update=change)
    with pytest.raises(Failed, match="is not at an address"):
        await crew.nodes.reach(machine)


async def test_a_connection_is_shared_and_kept(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    crew.fault("ssh connect *", How.SLOW, seconds=0, times=100)
    await asyncio.gather(*(crew.nodes.reach(machine) for _ in range(8)))
    ((_, calls),) = crew.site.faults.met()
    assert len(calls) == 2  # one to see the key, one to log in


async def test_checks_pass_on_a_good_host(crew: Crew) -> None:
    first, worker = await crew.site.install("cp-1"), await crew.site.install("w", Role.WORKER)
    for machine in (first, worker):
        await crew.nodes.preflight(machine)
        await crew.nodes.preflight(machine)
    await crew.nodes.initialise(founding(first))
    await crew.nodes.preflight(first)  # a node has passed, though its files are in the way
    assert crew.violations == []


async def test_checks_that_fail_are_named(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    await typed(crew.site.host(machine), "sudo sysctl -w net.ipv4.ip_forward=0")
    with pytest.raises(Failed) as caught:
        await crew.nodes.preflight(machine)
    assert "[ERROR FileContent--proc-sys-net-ipv4-ip_forward]" in caught.value.message
    assert caught.value.reason == "PREFLIGHT"
    await typed(crew.site.host(machine), "sudo sysctl --system")
    await crew.nodes.preflight(machine)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("apt-get remove -y containerd", "containerd on .* is inactive"),
        (
            "apt-get install -y --allow-change-held-packages kubeadm=1.30.8-1.1",
            "is v1.30.8, not v1.31.4",
        ),
        ("apt-get remove -y kubeadm", "answered 127 to kubeadm version"),
    ],
)
async def test_software_that_is_missing_is_named(crew: Crew, line: str, complaint: str) -> None:
    machine = await crew.site.install("w-1", Role.WORKER)
    await typed(crew.site.host(machine), f"sudo {line}")
    with pytest.raises(Failed, match=complaint):
        await crew.nodes.preflight(machine)


async def test_initialising_keeps_the_kubeconfig_and_is_done_once(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    await crew.nodes.initialise(founding(machine))
    (cluster,) = crew.site.clusters.all()
    reference = kubeconfig(machine.slot.cluster_uid)
    assert crew.vault.secrets.pop(reference) == cluster.kubeconfig.encode()
    await crew.nodes.initialise(founding(machine))
    assert crew.vault.secrets[reference] == cluster.kubeconfig.encode()
    assert crew.site.runs(machine) == [("init", "ok")]


async def test_two_at_once_are_one_run() -> None:
    pace = Pace(boot=0, cloud_init=0, initialise=0.3)
    async with metal(pace=pace) as site:
        crew = Crew(site)
        machine = await site.install("cp-1")
        others = [SshNodes(crew.vault, MemoryBackups(), port=site.port) for _ in range(3)]
        await asyncio.gather(*(nodes.initialise(founding(machine)) for nodes in others))
        assert site.runs(machine) == [("init", "ok")]
        assert crew.violations == []
        for nodes in others:
            await nodes.close()


@pytest.mark.parametrize("line", range(INIT_LINES + 1))
async def test_a_line_that_drops_during_init_costs_nothing(crew: Crew, line: int) -> None:
    machine = await crew.site.install("cp-1")
    crew.fault("kubeadm * init", How.DROP, line=line)
    await insist(lambda: crew.nodes.initialise(founding(machine)))
    assert crew.site.runs(machine) == [("init", "ok")]
    assert crew.violations == []


@pytest.mark.parametrize("how", [How.DROP, How.HALF])
async def test_any_command_may_get_lost(crew: Crew, how: How) -> None:
    """Each command of an init and of a join in turn, before its work and after it."""
    first, second = await crew.site.install("cp-1"), await crew.site.install("cp-2")
    lost = 0
    for number in range(1, 100):
        crew.fault("ssh exec *", how, nth=number)
        tries = await insist(lambda: crew.nodes.initialise(founding(first)))
        tries += await insist(lambda: crew.nodes.join(joining(second, first)))
        assert crew.site.runs(first)[-1] == ("init", "ok")
        assert crew.site.runs(second)[-1] == ("join", "ok")
        assert crew.violations == []
        ((_, calls),) = crew.site.faults.met()
        crew.site.faults.clear()
        for machine in (second, first):
            await insist(lambda target=machine: crew.nodes.reset(target))  # type: ignore[misc]
        if not calls:
            break
        lost += 1
    assert lost >= 14
    for machine in (first, second):
        begun = [verb for verb, _ in crew.site.runs(machine) if verb != "reset"]
        assert len(begun) == lost + 1


async def test_a_run_that_failed_stays_failed_until_it_is_reset(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    crew.fault("kubeadm * init", How.FAIL, message="could not initialize a Kubernetes cluster")
    for _ in range(2):
        with pytest.raises(Failed, match="phase wait-control-plane: could not init") as caught:
            await crew.nodes.initialise(founding(machine))
        assert caught.value.facts["phase"] == "wait-control-plane"
    assert [verb for verb, _ in crew.site.runs(machine)] == ["init"]
    await crew.nodes.reset(machine)
    await crew.nodes.initialise(founding(machine))
    assert [verb for verb, _ in crew.site.runs(machine)] == ["init", "reset", "init"]


@pytest.mark.parametrize("line", [0, 5, 10, 17])
async def test_a_run_that_a_restart_interrupted_is_cleared_and_begun_anew(
    crew: Crew, line: int
) -> None:
    machine = await crew.site.install("cp-1")
    crew.fault("kubeadm * init", How.REBOOT, line=line)
    await insist(lambda: crew.nodes.initialise(founding(machine)), tries=20)
    assert crew.site.runs(machine) == [("init", "interrupted"), ("reset", "ok"), ("init", "ok")]
    assert crew.violations == []


async def test_workers_and_control_planes_join(crew: Crew) -> None:
    first = await crew.first()
    second = await crew.site.install("cp-2")
    await crew.nodes.join(joining(second, first))
    workers = [await crew.site.install(f"w-{number}", Role.WORKER) for number in range(5)]
    await asyncio.gather(*(crew.nodes.join(joining(worker, first)) for worker in workers))
    (cluster,) = crew.site.clusters.all()
    ready = [n.name for n in crew.site.clusters.nodes(cluster.uid)]
    assert sorted(ready) == ["cp-1", "cp-2", "w-0", "w-1", "w-2", "w-3", "w-4"]
    assert all(crew.site.clusters.node_ready(cluster.uid, name) for name in ready)
    assert not any(member.learner for member in cluster.members.values())
    assert crew.violations == []


async def test_whoever_has_joined_is_not_invited_again(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    await crew.nodes.join(joining(worker, first))
    await crew.nodes.join(joining(worker, first))
    assert crew.site.host(first).state.kubeadm.counts["token create"] == 1
    assert crew.site.runs(worker) == [("join", "ok")]


async def test_a_host_is_not_taken_for_what_it_was_before(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    await crew.nodes.join(joining(worker, first))
    slot = worker.slot.model_copy(update={"name": "w-2"})
    other = worker.model_copy(update={"slot": slot})
    crew.vault.secrets[host_key(other)] = crew.vault.secrets[host_key(worker)]
    with pytest.raises(Conflict, match="went through join for something else"):
        await crew.nodes.join(joining(other, first))


async def test_a_spoilt_kubeconfig_is_not_quoted(crew: Crew) -> None:
    """Neither by the message nor by what it came from, since Temporal keeps both."""
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    key = secrets.token_hex(32)
    kept = f"users: [{{user: {{client-key-data: '{key}' : }}}}]".encode()
    crew.vault.secrets[kubeconfig(first.slot.cluster_uid)] = kept
    with pytest.raises(Failed, match="the kubeconfig of hello cannot be read: ParserError") as no:
        await crew.nodes.join(joining(worker, first))
    assert key[-16:] not in "".join(traceback.format_exception(no.value))


@pytest.mark.parametrize("nth", range(1, 7))
async def test_a_system_manager_that_says_nothing_is_asked_again(crew: Crew, nth: int) -> None:
    """It is away for a moment while it is replaced, and what follows its answer is no answer."""
    machine = await crew.site.install("cp-1")
    crew.fault("systemctl * show", How.REFUSE, nth=nth)
    await insist(lambda: crew.nodes.initialise(founding(machine)))
    await insist(lambda: crew.nodes.initialise(founding(machine)))
    await insist(lambda: crew.nodes.initialise(founding(machine)))
    assert crew.site.runs(machine) == [("init", "ok")]
    assert crew.violations == []


async def test_a_run_is_not_taken_for_interrupted_while_nobody_knows(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    await crew.nodes.initialise(founding(machine))
    crew.fault("systemctl * show", How.REFUSE, times=100)
    with pytest.raises(Unavailable, match="did not say how init stands") as caught:
        await crew.nodes.initialise(founding(machine))
    assert caught.value.reason != "INTERRUPTED"
    with pytest.raises(Unavailable, match="did not say how init stands"):
        await crew.nodes.preflight(machine)


async def test_an_expired_token_is_replaced() -> None:
    clock = HandClock()
    async with metal(clock=clock) as site:
        crew = Crew(site)
        first, worker = await crew.first(), await site.install("w-1", Role.WORKER)
        crew.fault("kubeadm id-w-1 join", How.SLOW, seconds=2000)
        attempt = asyncio.create_task(crew.nodes.join(joining(worker, first)))
        await until(lambda: bool(site.runs(worker)))
        await clock.turn(2000)
        with pytest.raises(Unavailable, match="JWS signature") as caught:
            await attempt
        assert caught.value.reason == "TOKEN_NOT_ACCEPTED"
        await crew.nodes.join(joining(worker, first))
        assert site.host(first).state.kubeadm.counts["token create"] == 2
        assert [verb for verb, _ in site.runs(worker)] == ["join", "reset", "join"]
        await crew.nodes.close()


async def test_a_join_waits_for_a_healthy_etcd(crew: Crew) -> None:
    first = await crew.first()
    second, third, late = [await crew.site.install(name) for name in ("cp-2", "cp-3", "cp-4")]
    for machine in (second, third):
        await crew.nodes.join(joining(machine, first))
    await crew.site.hosts.power_off(third.system_id)
    with pytest.raises(Unavailable, match="phase check-etcd") as caught:
        await crew.nodes.join(joining(late, first))
    assert caught.value.reason == "ETCD_UNHEALTHY"
    await crew.site.hosts.power_on(third.system_id)
    await insist(lambda: crew.nodes.join(joining(late, first)), tries=20)
    assert crew.violations == []


@pytest.mark.parametrize("line", range(6))
async def test_a_join_that_a_restart_interrupted_leaves_nothing_behind(
    crew: Crew, line: int
) -> None:
    first, second = await crew.first(), await crew.site.install("cp-2")
    crew.fault("kubeadm id-cp-2 join", How.REBOOT, line=line)
    crew.fault("kubeadm id-cp-2 reset", How.FAIL)
    await insist(lambda: crew.nodes.join(joining(second, first)), tries=20)
    (cluster,) = crew.site.clusters.all()
    assert sorted(cluster.members) == ["cp-1", "cp-2"]
    assert crew.violations == []


async def test_a_ready_node_of_that_name_is_final(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    await crew.nodes.join(joining(worker, first))
    double = await crew.site.install("other", Role.WORKER)
    double = double.model_copy(update={"slot": worker.slot})
    with pytest.raises(Failed, match='"w-1" and status "Ready" already exists'):
        await crew.nodes.join(joining(double, first))


async def test_joining_a_dead_cluster_may_work_later(crew: Crew) -> None:
    first, worker = await crew.first(), await crew.site.install("w-1", Role.WORKER)
    (cluster,) = crew.site.clusters.all()
    crew.site.clusters.set_member_health(cluster.uid, "cp-1", healthy=False)
    with pytest.raises(Unavailable, match="kubeadm token create on cp-1") as caught:
        await crew.nodes.join(joining(worker, first))
    assert caught.value.reason == "API_UNREACHABLE"
    crew.site.clusters.set_member_health(cluster.uid, "cp-1", healthy=True)
    await crew.nodes.join(joining(worker, first))


async def test_leaving_takes_the_member_out_through_another(crew: Crew) -> None:
    first, second = await crew.first(), await crew.site.install("cp-2")
    await crew.nodes.join(joining(second, first))
    await crew.nodes.leave(joining(second, first))
    await crew.nodes.leave(joining(second, first))
    (cluster,) = crew.site.clusters.all()
    assert list(cluster.members) == ["cp-1"]
    await crew.nodes.leave(joining(first, first))  # there is no other
    assert list(cluster.members) == ["cp-1"]


async def test_whoever_answers_is_gone_through(crew: Crew) -> None:
    first = await crew.first()
    others = [await crew.site.install(name) for name in ("cp-2", "cp-3")]
    worker = await crew.site.install("w-1", Role.WORKER)
    for machine in others:
        await crew.nodes.join(joining(machine, first))
    await crew.site.hosts.power_off(first.system_id)
    with pytest.raises(Unavailable, match="cp-1"):
        await crew.nodes.join(joining(worker, first))
    await crew.nodes.join(joining(worker, first, *others))
    (cluster,) = crew.site.clusters.all()
    assert crew.site.clusters.node(cluster.uid, "w-1") is not None
    await crew.nodes.leave(joining(first, first, *others))
    assert sorted(cluster.members) == ["cp-2", "cp-3"]


async def test_leaving_never_costs_the_majority(crew: Crew) -> None:
    first = await crew.first()
    second, third = [await crew.site.install(name) for name in ("cp-2", "cp-3")]
    for machine in (second, third):
        await crew.nodes.join(joining(machine, first))
    await crew.site.hosts.power_off(second.system_id)
    with pytest.raises(Unavailable, match="not enough started members"):
        await crew.nodes.leave(joining(third, first))
    await crew.nodes.leave(joining(second, first))
    (cluster,) = crew.site.clusters.all()
    assert sorted(cluster.members) == ["cp-1", "cp-3"]


async def test_resetting_is_harmless_wherever_it_is_done(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    await crew.nodes.reset(machine)
    await crew.nodes.initialise(founding(machine))
    await crew.nodes.reset(machine)
    await crew.nodes.reset(machine)
    assert crew.site.clusters.all() == []
    await typed(crew.site.host(machine), "sudo apt-get remove -y kubeadm")
    await crew.nodes.reset(machine)


async def test_resetting_ends_a_run_that_hangs(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    crew.fault("kubeadm * init", How.HANG)
    attempt = asyncio.create_task(crew.nodes.initialise(founding(machine)))
    await until(lambda: bool(crew.site.runs(machine)))
    await crew.nodes.reset(machine)
    with pytest.raises(Unavailable, match="interrupted"):
        await attempt
    assert crew.site.runs(machine) == [("init", "killed"), ("reset", "ok")]
    assert crew.violations == []


async def test_a_host_out_of_reach_is_not_reset_now(crew: Crew) -> None:
    machine = await crew.site.install("cp-1")
    await crew.site.hosts.power_off(machine.system_id)
    with pytest.raises(Unavailable, match="did not"):
        await crew.nodes.reset(machine)


async def test_a_run_that_takes_too_long_goes_on_without_us() -> None:
    clock = HandClock()
    async with metal(clock=clock, pace=Pace(boot=0, cloud_init=0, initialise=10)) as site:
        crew = Crew(site)
        machine = await site.install("cp-1")
        hasty = SshNodes(crew.vault, MemoryBackups(), port=site.port, job_seconds=0.1)
        with pytest.raises(Unavailable, match="still runs after 0 s"):
            await hasty.initialise(founding(machine))
        waiting = asyncio.create_task(crew.nodes.initialise(founding(machine)))
        while not waiting.done():
            await clock.turn(1)
        await waiting
        assert site.runs(machine) == [("init", "ok")]
        await hasty.close()
        await crew.nodes.close()


async def test_no_secret_is_left_lying_or_said_aloud(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first, second = await crew.first(), await crew.site.install("cp-2")
    worker = await crew.site.install("w-1", Role.WORKER)
    for machine in (second, worker):
        await crew.nodes.join(joining(machine, first))
    assert crew.violations == []
    (cluster,) = crew.site.clusters.all()
    tokens = [f"{name}.{token.secret}" for name, token in cluster.tokens.items()]
    assert len(tokens) == 2
    for machine in (first, second, worker):
        disk = crew.site.host(machine).disk
        for path in disk.paths():
            if path.startswith("/var/lib/windlass") and not path.endswith("marker"):
                assert not SECRET.search(disk.stat(path).content), path
    said = re.sub(r"--exec-id \S+ [0-9a-f]{64}", "", caplog.text)  # a container is no secret
    assert not SECRET.search(said.encode())


async def three(crew: Crew) -> list[Machine]:
    """A control plane of three."""
    machines = [await crew.first()]
    for name in ("cp-2", "cp-3"):
        machine = await crew.site.install(name)
        await crew.nodes.join(joining(machine, machines[0]))
        machines.append(machine)
    return machines


async def test_the_inside_of_a_control_plane_is_told_by_any_of_its_hosts(crew: Crew) -> None:
    first, second, third = await three(crew)
    told = await crew.nodes.inside([first, second, third])
    assert told.members is not None
    assert [(each.name, each.answers) for each in told.members] == [
        (name, True) for name in ("cp-1", "cp-2", "cp-3")
    ]
    assert told.expires is not None
    assert 360 < (told.expires - datetime.now(UTC)).days <= 365
    assert told.expires_on.startswith("cp-")
    await crew.site.hosts.power_off(first.system_id)
    told = await crew.nodes.inside([first, second, third])
    assert told.silent == ("cp-1",)
    assert told.has_quorum


async def test_the_kubeconfig_that_is_kept_is_renewed_by_whoever_answers(crew: Crew) -> None:
    first, second, third = await three(crew)
    (cluster,) = crew.site.clusters.all()
    kept = kubeconfig(first.slot.cluster_uid)
    fresh = crew.vault.secrets[kept]
    soon = datetime.now(UTC) + timedelta(days=9)
    short = authority.client(cluster.authority, "kubernetes-admin", "admins", until=soon)
    old = authority.kubeconfig("https://there", cluster.authority.certificate, "admin", short)
    crew.vault.secrets[kept] = old.encode()
    told = await crew.nodes.inside([first, second, third])
    assert told.admitted_until is not None
    assert abs(told.admitted_until - soon) < timedelta(seconds=2)
    await crew.site.hosts.power_off(first.system_id)
    await crew.nodes.renew_access([first, second, third])
    assert crew.vault.secrets[kept] == fresh, "a host has one that lives for long"
    crew.vault.secrets[kept] = old.encode()
    for machine in (second, third):
        crew.site.host(machine).disk.write("/etc/kubernetes/admin.conf", old.encode(), mode=0o600)
    await crew.nodes.renew_access([first, second, third])
    told = await crew.nodes.inside([second, third])
    assert told.admitted_until is not None
    assert 360 < (told.admitted_until - datetime.now(UTC)).days <= 365
    assert crew.vault.secrets[kept] != fresh


async def test_a_lost_quorum_is_told_by_the_one_that_is_left(crew: Crew) -> None:
    first, second, third = await three(crew)
    for machine in (first, second):
        await crew.site.hosts.power_off(machine.system_id)
    told = await crew.nodes.inside([first, second, third])
    assert told.members is not None
    assert not told.has_quorum


async def test_hosts_that_cannot_be_reached_tell_nothing(crew: Crew) -> None:
    machine = await crew.first()
    await crew.site.hosts.power_off(machine.system_id)
    told = await crew.nodes.inside([machine])
    assert (told.members, told.expires) == (None, None)
    assert told.has_quorum, "nobody knows better"


async def test_a_host_that_hangs_does_not_keep_others_from_telling(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = await three(crew)
    monkeypatch.setattr(inside, "HOST_SECONDS", 3)
    crew.fault(f"ssh exec {first.system_id} *", How.HANG, times=100)
    async with limit(40):
        told = await crew.nodes.inside([first, second, third])
    assert told.members is not None
    assert [each.name for each in told.members] == ["cp-1", "cp-2", "cp-3"]
    assert told.expires_on in ("cp-2", "cp-3")


async def test_a_member_that_is_no_host_of_ours_is_told_too(crew: Crew) -> None:
    first, second, third = await three(crew)
    await crew.site.hosts.power_off(third.system_id)
    told = await crew.nodes.inside([first, second])
    assert told.silent == ("cp-3",)
