"""The small shell of a simulated host: what it reads, what it refuses, and who may do what."""

from collections.abc import AsyncIterator

import pytest

from sim.hosts.disk import ROOT
from sim.hosts.host import Host
from sim.hosts.script import ScriptError, parse
from sim.hosts.shell import first_words
from sim.pace import HandClock
from tests.metal import USER, metal, typed, until


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with metal() as site:
        yield site.host(await site.install("cp-1"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo a  b 'c  d' \"e f\"", "a b c  d e f\n"),
        ("echo -n a; echo b", "ab\n"),
        ("true && echo yes || echo no", "yes\n"),
        ("false && echo yes || echo no", "no\n"),
        ("false; echo $?", "1\n"),
        ('name=world; echo "hello ${name}" \'$name\' "\\$name"', "hello world $name $name\n"),
        ("echo one | cat", "one\n"),
        ("echo one > f; echo two >> f; cat f", "one\ntwo\n"),
        ("echo lost > /dev/null; echo kept", "kept\n"),
        ("cat nowhere 2>&1 || true", "cat: /home/windlass/nowhere: No such file or directory\n"),
        ("cat nowhere 2>/dev/null; echo $?", "1\n"),
        ("echo in > f; cat < f", "in\n"),
        ("sh -c 'echo inner; exit 3'; echo $?", "inner\n3\n"),
        ("# a remark\necho \\\n joined", "joined\n"),
        ("printf x 2>/dev/null; echo $?", "127\n"),
        ("cd /etc; cat hostname", "cp-1\n"),
        ("test -f /etc/hostname && [ a != b ] && echo right", "right\n"),
        ("seq=a; [ ! -d /etc/hostname ] && echo $seq", "a\n"),
        ("echo 1; echo 2; echo 3 > f; head -n 1 f; echo abc | tail -c 3", "1\n2\n3\nbc\n"),
        ("echo secret | tee f; cat f", "secret\nsecret\n"),
        ("echo a b | sed 's/a/x/'", "x b\n"),
        ("mkdir -p a/b; echo x > a/b/c; mv a z; cat z/b/c; rm -r z; ls", "x\n"),
        ("touch a1 a2 .a3; echo a* 'a*' b*; ls /etc/host*", "a1 a2 a* b*\n/etc/hostname\n"),
        ("whoami; sudo whoami; sudo -n -- id -u", "windlass\nroot\n0\n"),
        ("echo abc > f; sha256sum f | head -c 12", "edeaaff3f1774ad2"[:12]),
        ("kubelet --version", "Kubernetes v1.31.4\n"),
        (
            "sudo apt-get install -y --allow-change-held-packages kubectl=1.30.8-*;"
            " sudo apt-mark showhold",
            None,
        ),
        ("cat /proc/sys/net/ipv4/ip_forward", "1\n"),
    ],
)
async def test_says_what_a_shell_says(host: Host, line: str, said: str | None) -> None:
    status, out, err = await typed(host, line)
    assert (status, err) == (0, "")
    assert said is None or out == said


async def test_does_not_know_every_command(host: Host) -> None:
    assert await typed(host, "nope --at all") == (127, "", "sh: 1: nope: not found\n")


@pytest.mark.parametrize("line", ["echo $(id)", "echo `id`", 'echo "$(id)"', "a &", "a &&", "| a"])
async def test_refuses_what_it_cannot_read(host: Host, line: str) -> None:
    status, out, err = await typed(host, line)
    assert (status, out) == (2, "")
    assert "Syntax error" in err


async def test_what_belongs_to_root_is_closed_to_others(host: Host) -> None:
    host.disk.write("/etc/secret", b"s", mode=0o600)
    status, _, err = await typed(
        host, "cat /etc/secret; echo x > /etc/new; mkdir /opt; rm -f /etc/x"
    )
    assert "cat: /etc/secret: Permission denied" in err
    assert "cannot create /etc/new: Permission denied" in err
    assert "mkdir: /opt: Permission denied" in err
    assert status == 0  # rm -f of what is not there
    assert (await typed(host, "sudo cat /etc/secret"))[:2] == (0, "s")
    assert (await typed(host, "systemctl restart containerd"))[0] == 1
    assert (await typed(host, "sudo systemctl restart containerd"))[0] == 0


async def test_a_directory_can_be_given_to_a_user(host: Host) -> None:
    assert (await typed(host, f"sudo install -d -m 0700 -o {USER} /var/lib/a /var/lib/a/b"))[0] == 0
    assert (await typed(host, "echo x > /var/lib/a/b/c && cat /var/lib/a/b/c"))[1] == "x\n"
    assert (await typed(host, "cat /var/lib/a/b/c", user="ubuntu"))[0] == 1
    assert (await typed(host, "cat /var/lib/a/b/c", user=ROOT))[0] == 0


async def test_system_manager_runs_a_unit_once() -> None:
    clock = HandClock()
    async with metal(clock=clock) as site:
        host = site.host(await site.install("cp-1"))
        job = "systemd-run --unit=windlass-x --collect -- /bin/sh -c"
        begun = await typed(host, f"sudo {job} 'sleep 5; echo $? > /run/rc'")
        assert begun == (0, "", "Running as unit: windlass-x.service\n")
        again = await typed(host, f"sudo {job} 'echo 9 > /run/rc'")
        assert again[0] == 1
        assert "was already loaded" in again[2]
        state = "systemctl show --property=ActiveState --value windlass-x.service"
        assert (await typed(host, state))[1] == "active\n"
        await until(lambda: host.state.units["windlass-x"].progress.begun)
        await clock.turn(5)
        await until(lambda: not host.state.units)
        assert (await typed(host, "systemctl is-active windlass-x"))[:2] == (3, "inactive\n")
        assert (await typed(host, "cat /run/rc"))[1] == "0\n"
        assert (await typed(host, f"{job} true"))[0] == 1  # nobody but root


async def test_a_stopped_unit_is_gone(host: Host) -> None:
    await typed(host, "sudo systemd-run --unit=long sh -c 'sleep 60; echo done > /home/done'")
    assert (await typed(host, "sudo systemctl stop 'lo*'; systemctl is-active long"))[0] == 3
    assert not host.disk.exists("/home/done")


async def test_package_manager_is_busy_during_the_first_boot(host: Host) -> None:
    host.state.settled = False
    host.disk.remove("/etc/apt/apt.conf.d/90windlass")
    assert (await typed(host, "sudo apt-get install -y jq"))[0] == 100
    assert (await typed(host, "sudo apt-get -o DPkg::Lock::Timeout=300 install -y jq"))[0] == 0
    assert "jq" in host.state.packages


def test_a_script_is_read_into_links() -> None:
    links = parse("a b > c 2>&1 && d | e; f")
    assert [(link.joint, len(link.pipeline)) for link in links] == [(";", 1), ("&&", 2), (";", 1)]


def test_an_unfinished_quote_is_an_error() -> None:
    with pytest.raises(ScriptError):
        parse("echo 'half")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sudo -n kubeadm init --config x", "kubeadm init"),
        ("kubeadm token create", "kubeadm token"),
        ("sudo -n -- systemctl stop x", "systemctl stop"),
        ("true", "true"),
    ],
)
def test_a_command_is_named_by_its_first_two_words(line: str, words: str) -> None:
    assert first_words(line) == words
