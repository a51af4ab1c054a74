"""Running commands on a simulated host: scripts, streams, and the call a command receives."""

import errno
import fnmatch
import getopt
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sim.hosts.disk import ROOT, Disk, normal
from sim.hosts.host import Host, Progress
from sim.hosts.script import Redirect, ScriptError, Simple, Word, expand, parse

_PATHS = re.compile(r"/(?:usr/)?(?:local/)?s?bin/(?=[^/]+$)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class Sink(Protocol):
    """Where output goes."""

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError once nobody reads any more."""


class Held:
    """Output that is kept to be read later."""

    def __init__(self) -> None:
        self.data = b""

    async def write(self, data: bytes) -> None:
        self.data += data


class Written:
    """Output that goes to the end of a file. What a full disk does not take is lost: few programs
    look whether what they say arrives."""

    def __init__(self, disk: Disk, path: str, user: str) -> None:
        self._disk = disk
        self._path = path
        self._user = user

    async def write(self, data: bytes) -> None:
        try:
            self._disk.write(self._path, data, self._user, append=True)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


async def nothing() -> bytes:
    """The input of a command that is given none."""
    return b""


class ExitRequest(Exception):  # noqa: N818 - it is no error
    """A script ends here."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Call:
    """One command being run: on which host, by whom, with which words and streams."""

    host: Host
    table: Mapping[str, "Command"]
    user: str
    words: list[str]
    out: Sink
    err: Sink
    stdin: Callable[[], Awaitable[bytes]] = nothing
    variables: dict[str, str] = field(default_factory=dict)
    unit: str = ""
    """The unit that it runs in, if systemd started it."""

    @property
    def name(self) -> str:
        return _PATHS.sub("", self.words[0])

    @property
    def disk(self) -> Disk:
        return self.host.disk

    def path(self, path: str) -> str:
        """A path as this command means it."""
        return normal(posixpath.join(self.variables.get("PWD", "/"), path))

    async def say(self, text: str) -> None:
        await self.out.write(text.encode() + b"\n")

    async def complain(self, text: str) -> None:
        await self.err.write(text.encode() + b"\n")

    async def stumble(self, error: OSError, *, doing: str = "") -> int:
        """Complain of a failed call to the kernel, the way commands do."""
        await self.complain(f"{self.name}: {doing}{error.filename}: {error.strerror}")
        return 1

    async def execute(self, words: list[str], *, user: str | None = None) -> int:
        """Run another command with this one's streams."""
        inner = replace(self, words=words, user=user or self.user)
        inner.host.see_words(words)
        command = self.table.get(inner.name)
        if command is None:
            await self.complain(f"sh: 1: {inner.name}: not found")
            return 127
        try:
            return await command(inner)
        except BrokenPipeError:
            raise
        except OSError as error:
            return await inner.stumble(error)
        except (getopt.GetoptError, ValueError) as error:
            await self.complain(f"{inner.name}: {error}")
            return 2

    async def script(self, text: str, progress: Progress | None = None) -> int:
        """Run a script with this call's streams. With `progress` it is one that outlives the
        site's process: the links already done are left out, and the one that was being run is
        taken up again, with its output added to what there is."""
        try:
            links = parse(text)
        except ScriptError as error:
            await self.complain(f"sh: 1: Syntax error: {error}")
            return 2
        status = progress.status if progress else 0
        first = progress.done if progress else 0
        resumed = progress is not None and progress.begun
        for number, link in enumerate(links):
            if number < first:
                continue
            if link.joint == ";" or (status == 0) == (link.joint == "&&"):
                if progress is not None:
                    progress.begun = True
                    self.host.keep()
                self.variables["?"] = str(status)
                try:
                    status = await self._pipeline(link.pipeline, resumed)
                except ExitRequest as request:
                    return request.status
            resumed = False
            if progress is not None:
                progress.done, progress.status, progress.begun = number + 1, status, False
                self.host.keep()
        return status

    async def _pipeline(self, pipeline: tuple[Simple, ...], resumed: bool) -> int:
        *feeders, last = pipeline
        call = self
        for simple in feeders:
            held = Held()
            await replace(call, out=held)._simple(simple, resumed)
            call = replace(self, stdin=_given(held.data))
        return await call._simple(last, resumed)

    async def _simple(self, simple: Simple, resumed: bool) -> int:
        variables = dict(self.variables)
        words = list(simple.words)
        while words and (found := _ASSIGNMENT.fullmatch(expand(words[0], variables))):
            variables[found[1]] = found[2]
            words.pop(0)
        call = replace(self, words=["sh"], variables=variables)
        try:
            for redirect in simple.redirects:
                call = call._redirected(redirect, resumed)
        except OSError as error:
            verb = "open" if redirect.how == "<" else "create"
            await self.complain(f"sh: 1: cannot {verb} {error.filename}: {error.strerror}")
            return 2
        if not words:
            self.variables.update(variables)
            return 0
        status = await call.execute([path for word in words for path in call._matching(word)])
        if "PWD" in variables:
            self.variables["PWD"] = variables["PWD"]
        return status

    def _matching(self, word: Word) -> list[str]:
        """The word, or the paths it stands for if it has a star that is not quoted."""
        text = expand(word, self.variables)
        if not any("*" in piece.text for piece in word if piece.expands):
            return [text]
        pattern = self.path(text)
        found = [path for path in self.disk.paths() if _stands_for(pattern, path)]
        if text.startswith("/"):
            return found or [text]
        here = self.path("").rstrip("/") + "/"
        return [path.removeprefix(here) for path in found] or [text]

    def _redirected(self, redirect: Redirect, resumed: bool) -> "Call":
        target = expand(redirect.target, self.variables)
        if redirect.how == "&":
            sink = self.out if target == "1" else self.err
            return replace(self, err=sink) if redirect.stream == 2 else replace(self, out=sink)
        path = self.path(target)
        if redirect.how == "<":
            return replace(self, stdin=_given(self.disk.read(path, self.user)))
        if redirect.how == ">" and not resumed:
            self.disk.write(path, b"", self.user)
        written = Written(self.disk, path, self.user)
        return replace(self, err=written) if redirect.stream == 2 else replace(self, out=written)


Command: TypeAlias = Callable[[Call], Awaitable[int]]
"""What a command does with its call. The number is its exit code."""


def first_words(command: str) -> str:
    """What a command line is about: the first two words of its first command, without sudo in
    front. This is the name under which it may be made to go wrong."""
    try:
        words = [expand(word, {}) for word in parse(command)[0].pipeline[0].words]
    except (ScriptError, IndexError):
        words = command.split()
    while words and (words[0] == "sudo" or words[0].startswith("-")):
        words.pop(0)
    return " ".join(words[:2])


def options(call: Call, letters: str, *names: str) -> tuple[dict[str, str], list[str]]:
    """The call's options by name with their values, and its other words. One that is not listed
    raises an error that the call answers with."""
    given, others = getopt.gnu_getopt(call.words[1:], letters, list(names))
    return dict(given), others


async def run_unit(host: Host, table: Mapping[str, Command], name: str) -> int:
    """Run a unit's command to its end, from where it stands."""
    unit = host.state.units[name]
    silent = Held()
    call = Call(
        host=host, table=table, user=ROOT, words=unit.words, out=silent, err=silent, unit=name
    )
    if len(unit.words) == 3 and call.name in ("sh", "bash") and unit.words[1] == "-c":
        host.see_words(unit.words)
        return await call.script(unit.words[2], unit.progress)
    return await call.execute(unit.words)


def _stands_for(pattern: str, path: str) -> bool:
    """A star stands for any part of one name, save the dot of a hidden one."""
    parts, names = pattern.split("/"), path.split("/")
    return len(parts) == len(names) and all(
        fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
        for part, name in zip(parts, names, strict=True)
    )


def _given(data: bytes) -> Callable[[], Awaitable[bytes]]:
    async def given() -> bytes:
        return data

    return given
