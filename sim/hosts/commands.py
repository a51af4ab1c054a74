"""The everyday commands of a simulated host, as a table of what each does with its call."""

import posixpath
from dataclasses import replace
from datetime import UTC, datetime

from sim.hosts.disk import ROOT
from sim.hosts.shell import Call, Command, ExitRequest, options


async def _true(_call: Call) -> int:
    return 0


async def _false(_call: Call) -> int:
    return 1


async def _exit(call: Call) -> int:
    status = call.words[1] if len(call.words) > 1 else call.variables.get("?", "0")
    raise ExitRequest(int(status) & 0xFF)


async def _cd(call: Call) -> int:
    target = call.path(call.words[1] if len(call.words) > 1 else _home(call.user))
    if not call.disk.stat(target, call.user).directory:
        raise NotADirectoryError(20, "Not a directory", target)
    call.variables["PWD"] = target
    return 0


async def _echo(call: Call) -> int:
    words, end = call.words[1:], b"\n"
    if words[:1] == ["-n"]:
        words, end = words[1:], b""
    await call.out.write(" ".join(words).encode() + end)
    return 0


async def _hostname(call: Call) -> int:
    await call.say(call.disk.read("/etc/hostname").decode().strip())
    return 0


async def _uname(call: Call) -> int:
    given, _ = options(call, "asrnmv")
    kernel = {"-s": "Linux", "-n": call.host.name, "-r": "6.8.0-49-generic", "-m": "x86_64"}
    await call.say(" ".join(kernel[key] for key in kernel if key in given or "-a" in given))
    return 0


async def _uptime(call: Call) -> int:
    since = call.host.state.answers_from
    if "-s" in call.words or "--since" in call.words:
        await call.say(datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S"))
    else:
        minutes = int((call.host.shared.clock.now() - since) / 60)
        await call.say(f" up {minutes} min,  1 user,  load average: 0.00, 0.00, 0.00")
    return 0


async def _date(call: Call) -> int:
    now = call.host.shared.clock.now()
    if "+%s" in call.words:
        await call.say(str(int(now)))
    else:
        await call.say(datetime.fromtimestamp(now, UTC).strftime("%a %b %e %H:%M:%S UTC %Y"))
    return 0


async def _id(call: Call) -> int:
    number = 0 if call.user == ROOT else 1000
    if "-u" in call.words:
        await call.say(call.user if "-n" in call.words else str(number))
    else:
        await call.say(f"uid={number}({call.user}) gid={number}({call.user})")
    return 0


async def _whoami(call: Call) -> int:
    await call.say(call.user)
    return 0


async def _nproc(call: Call) -> int:
    await call.say("8")
    return 0


async def _sleep(call: Call) -> int:
    await call.host.shared.clock.sleep(float(call.words[1]))
    return 0


async def _sudo(call: Call) -> int:
    """Whoever can log in may do anything, and is never asked for a password."""
    words = call.words[1:]
    user = ROOT
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag == "-u" and words:
            user = words.pop(0)
        if flag == "--":
            break
    if not words:
        await call.complain("usage: sudo [-n] [-u user] [--] command")
        return 1
    return await call.execute(words, user=user)


async def _sh(call: Call) -> int:
    inner = replace(call, variables=dict(call.variables))
    match call.words[1:]:
        case [("-c" | "-ec" | "-lc"), script, *_]:
            return await inner.script(script)
        case []:
            return await inner.script((await call.stdin()).decode())
        case [path]:
            return await inner.script(call.disk.read(call.path(path), call.user).decode())
    await call.complain(f"{call.name}: 0: Illegal option {call.words[1]}")
    return 2


async def _root_only(call: Call) -> int:
    """Settings of the kernel: any are accepted, none is kept."""
    if call.user != ROOT:
        await call.complain(f"{call.name}: permission denied")
        return 1
    return 0


async def _sysctl(call: Call) -> int:
    """Settings given as words, or with --system those in files."""
    if call.user != ROOT:
        await call.complain("sysctl: permission denied")
        return 1
    lines = [word for word in call.words[1:] if "=" in word]
    if "--system" in call.words:
        for path in call.disk.paths():
            if path.startswith("/etc/sysctl.d/") and path.endswith(".conf"):
                lines += call.disk.read(path).decode().splitlines()
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and not line.startswith(("#", ";")):
            path = f"/proc/sys/{name.strip().replace('.', '/')}"
            call.disk.make_directories(posixpath.dirname(path))
            call.disk.write(path, f"{value.strip()}\n".encode())
    return 0


async def _reboot(call: Call) -> int:
    if call.user != ROOT:
        await call.complain("Failed to set wall message: Interactive authentication required.")
        return 1
    call.host.shared.reboot(call.host.id)
    return 0


def _home(user: str) -> str:
    return "/root" if user == ROOT else f"/home/{user}"


COMMANDS: dict[str, Command] = {
    ":": _true,
    "true": _true,
    "false": _false,
    "exit": _exit,
    "cd": _cd,
    "echo": _echo,
    "hostname": _hostname,
    "uname": _uname,
    "uptime": _uptime,
    "date": _date,
    "id": _id,
    "whoami": _whoami,
    "nproc": _nproc,
    "sleep": _sleep,
    "sync": _true,
    "sudo": _sudo,
    "sh": _sh,
    "bash": _sh,
    "swapoff": _root_only,
    "sysctl": _sysctl,
    "modprobe": _root_only,
    "reboot": _reboot,
}
