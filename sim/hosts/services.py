"""What a simulated host's system manager, package manager and first boot answer to."""

import asyncio
import fnmatch
import json
import re

from domain.errors import Invalid
from domain.releases import Version
from sim.faults import Fault, How
from sim.hosts import locks
from sim.hosts.disk import ROOT
from sim.hosts.host import NODES, Host, Unit
from sim.hosts.shell import Call, Command

NEWEST = "1.33.0-1.1"
"""What apt installs of a Kubernetes package when no version is asked for."""

_CONTAINERD_DEFAULT = """\
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.8"
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = ""
          SystemdCgroup = false"""
"""What containerd of Debian 13 says of itself, as far as it matters to a node."""

_CONTAINERD = frozenset({"containerd", "containerd.io"})
_KUBERNETES = frozenset({"kubeadm", "kubelet", "kubectl"})
_LAST_MINOR, _LAST_PATCH = 36, 60
"""No repository of the simulated world has anything newer."""

_CHANGING = frozenset(
    {"start", "stop", "restart", "enable", "disable", "daemon-reload", "reset-failed", "reboot"}
)
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+")


def install(host: Host, packages: list[str]) -> None:
    """Install packages, each perhaps with `=` and a version, which may end in a star."""
    for package in packages:
        host.state.packages[package.partition("=")[0]] = _chosen(package)
    host.keep()


def unpublished(packages: list[str]) -> list[str]:
    """What apt complains of that no repository has: versions of Kubernetes that never were."""
    return [
        f"E: Version '{package.partition('=')[2]}' for '{package.partition('=')[0]}' was not found"
        for package in packages
        if package.partition("=")[0] in _KUBERNETES and not _is_published(_chosen(package))
    ]


def _is_published(version: str) -> bool:
    try:
        parsed = Version.parse(version.partition("-")[0])
    except Invalid:
        return False
    return parsed.major == 1 and parsed.minor <= _LAST_MINOR and parsed.patch <= _LAST_PATCH


def _chosen(package: str) -> str:
    """The version of a package that apt takes."""
    name, _, version = package.partition("=")
    if version.endswith("*"):
        version = version.rstrip("*").rstrip("-") + "-1.1"
    return version or (NEWEST if name in _KUBERNETES else "1.0")


def kubernetes_version(host: Host, package: str) -> str | None:
    """The version of a Kubernetes package, without a v; None if it is not installed."""
    version = host.state.packages.get(package)
    return version.partition("-")[0] if version else None


def kubelet_up(host: Host) -> None:
    """A node's kubelet starts, as the version that is installed now."""
    state, version = host.state.kubeadm, kubernetes_version(host, "kubelet")
    if state.kind in NODES and version:
        host.shared.clusters.kubelet_started(state.cluster, state.name, version)


def active_state(host: Host, unit: str) -> str:
    """systemd's word for how a unit is doing. One it does not know is inactive."""
    name = unit.removesuffix(".service")
    if name in host.state.units:
        return "active"
    always = {"ssh": True, "kubelet": host.state.kubeadm.kind in NODES}
    installed = _CONTAINERD & host.state.packages.keys()
    runs = always.get(name, name == "containerd" and bool(installed))
    return "active" if runs else "inactive"


async def _systemctl(call: Call) -> int:
    words = [word for word in call.words[1:] if not word.startswith("-")]
    flags = [word for word in call.words[1:] if word.startswith("-")]
    for flag in ("-p", "--property"):
        if flag in call.words[1:]:
            value = call.words[call.words.index(flag) + 1]
            words.remove(value)
            flags.append(f"--property={value}")
    verb, *units = words or ["list-units"]
    match call.host.shared.faults.meet(f"systemctl {call.host.id} {verb}"):
        case Fault(how=How.REFUSE, message=message):
            await call.complain(message)
            return 1
    if verb in _CHANGING and call.user != ROOT:
        await call.complain(f"Failed to {verb} unit: Interactive authentication required.")
        return 1
    match verb:
        case "is-active":
            states = [active_state(call.host, unit) for unit in units]
            for state in states if "--quiet" not in flags and "-q" not in flags else ():
                await call.say(state)
            return 0 if "active" in states else 3
        case "show":
            for unit in units:
                await _show(call, unit, flags)
        case "stop":
            for pattern in units:
                await _stop(call.host, pattern.removesuffix(".service"))
        case "start" | "restart" if "kubelet" in [unit.removesuffix(".service") for unit in units]:
            kubelet_up(call.host)
        case "is-system-running":
            await call.say("running" if call.host.state.settled else "starting")
            return int(not call.host.state.settled)
        case "list-units":
            for name in call.host.state.units:
                await call.say(f"{name}.service loaded active running")
        case "reboot":
            call.host.shared.reboot(call.host.id)
        case _ if verb not in _CHANGING:
            await call.complain(f"Unknown command verb {verb}.")
            return 1
    return 0


async def _show(call: Call, unit: str, flags: list[str]) -> None:
    state = active_state(call.host, unit)
    shown = {
        "Id": f"{unit.removesuffix('.service')}.service",
        "LoadState": "loaded" if state == "active" else "not-found",
        "ActiveState": state,
        "SubState": "running" if state == "active" else "dead",
    }
    asked = [
        name
        for flag in flags
        if flag.startswith(("--property=", "-p"))
        for name in flag.removeprefix("--property=").removeprefix("-p").split(",")
    ]
    for name in asked or shown:
        if name in shown:
            await call.say(shown[name] if "--value" in flags else f"{name}={shown[name]}")


async def _stop(host: Host, pattern: str) -> None:
    for name in fnmatch.filter(list(host.state.units), pattern):
        await host.stop_unit(name)


async def _systemd_run(call: Call) -> int:
    words = call.words[1:]
    name = ""
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag == "--":
            break
        option, _, value = flag.partition("=")
        if option in ("--unit", "-u"):
            name = value or words.pop(0)
        elif option in ("--property", "-p", "--description", "--setenv", "-E") and not value:
            words.pop(0)
    name = name.removesuffix(".service") or f"run-u{len(call.host.state.units)}"
    if not words or not _UNIT.fullmatch(name):
        await call.complain("Command line to execute required.")
        return 1
    if call.user != ROOT:
        await call.complain(
            "Failed to start transient service unit: Interactive authentication required."
        )
        return 1
    if active_state(call.host, name) == "active":
        await call.complain(
            f"Failed to start transient service unit: Unit {name}.service was already loaded "
            "or has a fragment file."
        )
        return 1
    now = call.host.shared.clock.now()
    call.host.begin_unit(name, Unit(words=words, started=now))
    await call.complain(f"Running as unit: {name}.service")
    return 0


async def _apt_get(call: Call) -> int:
    if call.user != ROOT:
        await call.complain(
            "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)"
        )
        return 100
    state, clock = call.host.state, call.host.shared.clock
    if not state.settled and not call.unit:  # cloud-init holds the lock until it is through
        if not locks.patience(call.disk, *call.words):
            await call.complain("E: Could not get lock /var/lib/dpkg/lock-frontend.")
            return 100
        await clock.sleep(max(0.0, state.settled_from - clock.now()))
    if await locks.held(call.host, locks.patience(call.disk, *call.words)):
        await call.complain(locks.COMPLAINT)
        return 100
    words = call.words[1:]
    while "-o" in words:
        at = words.index("-o")
        del words[at : at + 2]
    verb, *packages = [word for word in words if not word.startswith("-")] or [""]
    if verb == "install" and not packages:  # it waits for the lock, and has nothing to do
        return 0
    if (fault := call.host.shared.faults.meet(f"apt-get {call.host.id} {verb}")) is not None:
        if fault.how in (How.REFUSE, How.FAIL):
            await call.complain(fault.message)
            return fault.status if fault.status < 256 else 100
        await _befall(call, fault)
    if verb == "install":
        if state.half_installed:
            await call.complain(
                "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to "
                "correct the problem."
            )
            return 100
        if "--allow-change-held-packages" not in words and _held(call.host, packages):
            await call.complain(
                "E: Held packages were changed and -y was used without "
                "--allow-change-held-packages."
            )
            return 100
        if missing := unpublished(packages):
            await call.complain("\n".join(missing))
            return 100
        install(call.host, packages)
        for package in packages:
            await call.say(f"Setting up {package.partition('=')[0]} ...")
    elif verb in ("remove", "purge"):
        for package in packages:
            state.packages.pop(package, None)
        call.host.keep()
    elif verb not in ("update", "upgrade", "clean", "autoremove"):
        await call.complain(f"E: Invalid operation {verb}")
        return 100
    return 0


async def _befall(call: Call, fault: Fault) -> None:
    """What comes over a package manager at work, short of a refusal."""
    match fault.how:
        case How.SLOW:
            await call.host.shared.clock.sleep(fault.seconds)
        case How.HANG:
            await asyncio.Event().wait()
        case How.DROP | How.HALF:
            call.host.drop_connections()
        case How.REBOOT:
            call.host.state.half_installed = True
            call.host.keep()
            call.host.shared.reboot(call.host.id)
            await asyncio.Event().wait()


async def _dpkg(call: Call) -> int:
    """Only `dpkg --configure -a`, which puts in order what was interrupted."""
    if call.user != ROOT or call.words[1:] != ["--configure", "-a"]:
        await call.complain("dpkg: error: requested operation requires superuser privilege")
        return 2
    call.host.state.half_installed = False
    call.host.keep()
    return 0


def _held(host: Host, packages: list[str]) -> list[str]:
    """Those that are held at another version."""
    state = host.state
    named = {package.partition("=")[0]: _chosen(package) for package in packages}
    return [
        name
        for name, version in named.items()
        if name in state.held and version != state.packages.get(name)
    ]


async def _apt_mark(call: Call) -> int:
    verb, *packages = call.words[1:]
    held = call.host.state.held
    match verb:
        case "hold":
            held.extend(package for package in packages if package not in held)
        case "unhold":
            held[:] = [package for package in held if package not in packages]
        case "showhold":
            for package in sorted(held):
                await call.say(package)
        case _:
            await call.complain(f"E: Invalid operation {verb}")
            return 100
    call.host.keep()
    return 0


async def _cloud_init(call: Call) -> int:
    if call.words[1:2] != ["status"]:
        await call.complain("usage: cloud-init status [--wait] [--long] [--format json]")
        return 2
    state, clock = call.host.state, call.host.shared.clock
    if "--wait" in call.words:
        await clock.sleep(max(0.0, state.settled_from - clock.now()))
    status = "error" if state.cloud_init_error else "done"
    status = status if state.settled else "running"
    if "json" in call.words or "--format=json" in call.words:
        errors = [state.cloud_init_error] if status == "error" else []
        answer = {"status": status, "errors": errors}
        await call.say(json.dumps(answer, indent=1))
    else:
        await call.say(f"status: {status}")
    return int(status == "error")


async def _containerd(call: Call) -> int:
    if not _CONTAINERD & call.host.state.packages.keys():
        await call.complain("sh: 1: containerd: not found")
        return 127
    if call.words[1:] == ["config", "default"]:
        await call.say(_CONTAINERD_DEFAULT)
    return 0


async def _kubelet(call: Call) -> int:
    version = kubernetes_version(call.host, "kubelet")
    if version is None:
        await call.complain("sh: 1: kubelet: not found")
        return 127
    if "--version" not in call.words:
        await call.complain("kubelet is started by systemd here")
        return 1
    await call.say(f"Kubernetes v{version}")
    return 0


COMMANDS: dict[str, Command] = {
    "systemctl": _systemctl,
    "systemd-run": _systemd_run,
    "apt-get": _apt_get,
    "apt": _apt_get,
    "apt-mark": _apt_mark,
    "dpkg": _dpkg,
    "cloud-init": _cloud_init,
    "containerd": _containerd,
    "kubelet": _kubelet,
}
