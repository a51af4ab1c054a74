"""The commands of a simulated host that are about files, as a table."""

import getopt
import hashlib
import io
import posixpath
import re
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from sim.hosts.disk import File
from sim.hosts.shell import Call, Command, options

_SED = re.compile(r"s(.)(?P<old>.*?)\1(?P<new>.*?)\1(?P<all>g?)|/(?P<gone>.*)/d")


async def _cat(call: Call) -> int:
    return await _each(call, options(call, "")[1], lambda data: data)


async def _head(call: Call) -> int:
    given, paths = options(call, "n:c:q")
    if "-c" in given:
        return await _each(call, paths, lambda data: data[: int(given["-c"])])
    count = int(given.get("-n", "10"))
    return await _each(call, paths, lambda data: b"".join(data.splitlines(True)[:count]))


async def _tail(call: Call) -> int:
    given, paths = options(call, "n:c:q")
    if "-c" in given:
        return await _each(call, paths, lambda data: data[max(0, len(data) - int(given["-c"])) :])
    count = int(given.get("-n", "10"))

    def lines(data: bytes) -> bytes:
        split = data.splitlines(True)
        return b"".join(split[max(0, len(split) - count) :])

    return await _each(call, paths, lines)


async def _sha256sum(call: Call) -> int:
    status = 0
    for path in call.words[1:]:
        try:
            data = call.disk.read(call.path(path), call.user)
        except OSError as error:
            status = await call.stumble(error)
            continue
        await call.say(f"{hashlib.sha256(data).hexdigest()}  {path}")
    return status


async def _tee(call: Call) -> int:
    given, paths = options(call, "a")
    data = await call.stdin()
    await call.out.write(data)
    for path in paths:
        call.disk.write(call.path(path), data, call.user, append="-a" in given)
    return 0


async def _test(call: Call) -> int:
    words = call.words[1:]
    if call.name == "[":
        if words[-1:] != ["]"]:
            await call.complain("[: missing ]")
            return 2
        words = words[:-1]
    wanted = True
    while words[:1] == ["!"]:
        words, wanted = words[1:], not wanted
    match words:
        case [("-e" | "-f" | "-d" | "-s" | "-r") as what, path]:
            holds = _is(call, what, path)
        case ["-n", text] | [text]:
            holds = text != ""
        case ["-z", text]:
            holds = text == ""
        case [left, ("=" | "==" | "!=") as relation, right]:
            holds = (left == right) == (relation != "!=")
        case []:
            holds = False
        case _:
            await call.complain(f"{call.name}: {' '.join(words)}: unexpected operator")
            return 2
    return int(holds != wanted)


def _is(call: Call, what: str, path: str) -> bool:
    try:
        file = call.disk.stat(call.path(path), call.user)
        if what == "-r":
            call.disk.read(call.path(path), call.user)
    except OSError:
        return False
    held = {"-f": not file.directory, "-d": file.directory, "-s": bool(file.text)}
    return held.get(what, True)


async def _mkdir(call: Call) -> int:
    given, paths = options(call, "pm:", "parents", "mode=")
    mode = int(given.get("-m", given.get("--mode", "755")), 8)
    for path in map(call.path, paths):
        if "-p" not in given and "--parents" not in given:
            call.disk.make_directory(path, call.user, mode)
        elif not (call.disk.exists(path) and call.disk.stat(path).directory):
            call.disk.make_directories(path, call.user, mode)
    return 0


async def _rm(call: Call) -> int:
    given, paths = options(call, "rRf", "recursive", "force")
    forced = "-f" in given or "--force" in given
    recursive = not given.keys().isdisjoint({"-r", "-R", "--recursive"})
    status = 0
    for path in map(call.path, paths):
        try:
            if recursive:
                call.disk.remove_tree(path, call.user)
            else:
                call.disk.remove(path, call.user)
        except FileNotFoundError as error:
            if not forced:
                status = await call.stumble(error, doing="cannot remove ")
        except OSError as error:
            status = await call.stumble(error, doing="cannot remove ")
    return status


async def _touch(call: Call) -> int:
    for path in map(call.path, call.words[1:]):
        call.disk.write(path, b"", call.user, append=True)
    return 0


async def _rmdir(call: Call) -> int:
    for path in call.words[1:]:
        call.disk.remove_directory(call.path(path), call.user)
    return 0


async def _mv(call: Call) -> int:
    *sources, target = options(call, "fT")[1]
    for source in sources:
        call.disk.rename(call.path(source), _into(call, source, target), call.user)
    return 0


async def _cp(call: Call) -> int:
    *sources, target = options(call, "fap")[1]
    for source in sources:
        data = call.disk.read(call.path(source), call.user)
        call.disk.write(_into(call, source, target), data, call.user)
    return 0


def _into(call: Call, source: str, target: str) -> str:
    """Where a file goes: into the target if that is a directory."""
    path = call.path(target)
    if call.disk.exists(path) and call.disk.stat(path).directory:
        return posixpath.join(path, posixpath.basename(source))
    return path


async def _install(call: Call) -> int:
    """Only `install -d` for directories and `install source target` for one file."""
    given, paths = options(call, "dm:o:g:D", "directory", "mode=", "owner=", "group=")
    mode = int(given.get("-m", given.get("--mode", "755")), 8)
    owner = given.get("-o", given.get("--owner", call.user))
    if "-d" in given or "--directory" in given:
        targets = [call.path(path) for path in paths]
        for target in targets:
            if not call.disk.exists(target):
                call.disk.make_directories(target, call.user, mode)
    else:
        source, target = paths
        targets = [_into(call, source, target)]
        call.disk.write(targets[0], call.disk.read(call.path(source), call.user), call.user)
    for target in targets:
        call.disk.change(target, call.user, mode=mode, owner=owner)
    return 0


async def _ls(call: Call) -> int:
    given, paths = options(call, "1aAld")
    status = 0
    for path in paths or ["."]:
        target = call.path(path)
        try:
            file = call.disk.stat(target, call.user)
            listed = file.directory and "-d" not in given
            names = call.disk.listing(target, call.user) if listed else [path]
        except OSError as error:
            await call.stumble(error, doing="cannot access ")
            status = 2
            continue
        for name in names:
            if name.startswith(".") and listed and given.keys().isdisjoint({"-a", "-A"}):
                continue
            shown = call.disk.stat(posixpath.join(target, name)) if listed else file
            await call.say(_long(shown, name) if "-l" in given else name)
    return status


def _long(file: File, name: str) -> str:
    bits = "".join(
        letter if file.mode & (0o400 >> place) else "-" for place, letter in enumerate("rwxrwxrwx")
    )
    when = datetime.fromtimestamp(file.modified, UTC).strftime("%b %e %H:%M")
    kind = "d" if file.directory else "-"
    return f"{kind}{bits} 1 {file.owner} {file.owner} {len(file.text)} {when} {name}"


async def _chmod(call: Call) -> int:
    mode, *paths = call.words[1:]
    for path in paths:
        call.disk.change(call.path(path), call.user, mode=int(mode, 8))
    return 0


async def _chown(call: Call) -> int:
    given, (owner, *paths) = options(call, "R")
    for path in map(call.path, paths):
        inside = [known for known in call.disk.paths() if known.startswith(f"{path}/")]
        for each in [path, *(inside if "-R" in given else ())]:
            call.disk.change(each, call.user, owner=owner.partition(":")[0])
    return 0


async def _sed(call: Call) -> int:
    """Commands of the form `s/a/b/`, perhaps with g, or `/a/d`; several with -e. Patterns are
    Python's."""
    given, paths = getopt.gnu_getopt(call.words[1:], "iEre:", ["in-place", "regexp-extended"])
    commands = [value for name, value in given if name == "-e"]
    if not commands:
        commands = [paths.pop(0)]
    edits = [_SED.fullmatch(command) for command in commands]
    for command, edit in zip(commands, edits, strict=True):
        if edit is None:
            await call.complain(f"sed: -e expression #1: unknown command: `{command}'")
            return 1

    def edited(data: bytes) -> bytes:
        lines = data.decode().splitlines(keepends=True)
        for found in filter(None, edits):
            lines = list(_sed_lines(lines, found))
        return "".join(lines).encode()

    if {"-i", "--in-place"}.isdisjoint(name for name, _ in given):
        return await _each(call, paths, edited)
    for path in map(call.path, paths):
        call.disk.write(path, edited(call.disk.read(path, call.user)), call.user)
    return 0


def _sed_lines(lines: list[str], found: re.Match[str]) -> Iterator[str]:
    for line in lines:
        if found["gone"] is None:
            yield re.sub(found["old"], found["new"], line, count=0 if found["all"] else 1)
        elif not re.search(found["gone"], line):
            yield line


async def _tar(call: Call) -> int:
    """Only `tar -cf archive` with names, and with -C for where the names after it are found."""
    if call.words[1:2] != ["-cf"]:
        await call.complain("tar: You must specify one of the '-Acdtrux' options")
        return 2
    _, _, target, *words = call.words
    held, here = io.BytesIO(), call.path("")
    with tarfile.open(fileobj=held, mode="w") as archive:
        while words:
            if words[0] == "-C":
                here, words = call.path(words[1]), words[2:]
                continue
            _archive(call, archive, here, words.pop(0))
    call.disk.write(call.path(target), held.getvalue(), call.user)
    return 0


def _archive(call: Call, archive: tarfile.TarFile, here: str, name: str) -> None:
    """Put a file or a tree into an archive, under its name from `here`."""
    top = posixpath.join(here, name)
    call.disk.stat(top, call.user)
    for path in call.disk.paths():
        if path != top and not path.startswith(f"{top}/"):
            continue
        file = call.disk.stat(path, call.user)
        entry = tarfile.TarInfo(posixpath.relpath(path, here))
        entry.mode, entry.mtime, entry.uname = file.mode, int(file.modified), file.owner
        if file.directory:
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        else:
            entry.size = len(file.text)
            archive.addfile(entry, io.BytesIO(file.content))


async def _each(call: Call, paths: list[str], part: Callable[[bytes], bytes]) -> int:
    """Write a part of each file, or of the input if none is named."""
    status = 0
    for path in paths or ["-"]:
        try:
            data = await call.stdin() if path == "-" else call.disk.read(call.path(path), call.user)
        except OSError as error:
            status = await call.stumble(error)
            continue
        await call.out.write(part(data))
    return status


COMMANDS: dict[str, Command] = {
    "cat": _cat,
    "head": _head,
    "tail": _tail,
    "sha256sum": _sha256sum,
    "tee": _tee,
    "test": _test,
    "[": _test,
    "mkdir": _mkdir,
    "rm": _rm,
    "rmdir": _rmdir,
    "touch": _touch,
    "mv": _mv,
    "cp": _cp,
    "install": _install,
    "ls": _ls,
    "sed": _sed,
    "chmod": _chmod,
    "chown": _chown,
    "tar": _tar,
}
