"""A host's files: small, owned, with modes that are obeyed, and kept in the ledger.

Failures are the OSErrors a kernel would give, so that a shell and an SFTP server can both pass
them on."""

import errno
import os
import posixpath
from typing import NoReturn

from sim.faults import Faults
from sim.ledger import Ledger, Record
from sim.pace import Clock

ROOT = "root"
_WRITE, _READ = 0o2, 0o4
_NULL = "/dev/null"
_TREE = {
    "/": 0o755,
    "/dev": 0o755,
    "/etc": 0o755,
    "/home": 0o755,
    "/proc/sys/kernel/random": 0o755,
    "/root": 0o700,
    "/run": 0o755,
    "/tmp": 0o1777,  # noqa: S108 - the simulated host's
    "/usr": 0o755,
    "/var/lib": 0o755,
    "/var/log": 0o755,
}


class File(Record):
    """A file or a directory. The content is held as text so that it can be a line of JSON."""

    directory: bool = False
    owner: str = ROOT
    mode: int
    modified: float
    text: str = ""

    @property
    def content(self) -> bytes:
        return self.text.encode("latin-1")


class Disk:
    """The file tree of one host. `who` is the user that asks; root may do everything."""

    def __init__(
        self,
        host: str,
        ledger: Ledger,
        clock: Clock,
        faults: Faults,
        files: dict[str, File] | None = None,
    ) -> None:
        """`files` is what `recalled` found for this host."""
        self._host = host
        self._ledger = ledger
        self._clock = clock
        self._faults = faults
        self._files = dict(files or {})

    def format(self) -> None:
        """Begin with an empty tree."""
        for path in list(self._files):
            self._drop(path)
        for path, mode in _TREE.items():
            self.make_directories(path, ROOT, mode)

    def erase(self) -> None:
        """Leave nothing, not even a tree."""
        for path in list(self._files):
            self._drop(path)

    def paths(self) -> list[str]:
        return sorted(self._files)

    def stat(self, path: str, who: str = ROOT) -> File:
        path = normal(path)
        for above in _above(path):
            directory = self._files.get(above)
            if directory is not None and not directory.directory:
                _refuse(errno.ENOTDIR, path)
            if directory is not None and not _may(directory, who, 0o1):
                _refuse(errno.EACCES, path)
        if path == _NULL:
            return File(mode=0o666, modified=0)
        return self._files.get(path) or _refuse(errno.ENOENT, path)

    def exists(self, path: str) -> bool:
        return normal(path) in self._files

    def read(self, path: str, who: str = ROOT) -> bytes:
        file = self.stat(path, who)
        if file.directory:
            _refuse(errno.EISDIR, path)
        if not _may(file, who, _READ):
            _refuse(errno.EACCES, path)
        return file.content

    def write(
        self, path: str, data: bytes, who: str = ROOT, *, mode: int = 0o644, append: bool = False
    ) -> None:
        """Replace what the file holds, or add to it. `mode` is for a file that is new. On a full
        disk a file can still be made, and holds nothing then."""
        path = normal(path)
        if path == _NULL:
            return
        try:
            file = self.stat(path, who)
        except FileNotFoundError:
            self._may_change(path, who)
            file = File(owner=who, mode=mode, modified=0)
        if file.directory:
            _refuse(errno.EISDIR, path)
        if not _may(file, who, _WRITE):
            _refuse(errno.EACCES, path)
        if data and self._faults.meet(f"disk {self._host} {path}") is not None:
            _refuse(errno.ENOSPC, path)
        file.text = (file.text if append else "") + data.decode("latin-1")
        self._keep(path, file)

    def listing(self, path: str, who: str = ROOT) -> list[str]:
        """The names in a directory, sorted."""
        path = normal(path)
        directory = self.stat(path, who)
        if not directory.directory:
            _refuse(errno.ENOTDIR, path)
        if not _may(directory, who, _READ):
            _refuse(errno.EACCES, path)
        return sorted(
            posixpath.basename(known)
            for known in self._files
            if known != "/" and posixpath.dirname(known) == path
        )

    def make_directory(self, path: str, who: str = ROOT, mode: int = 0o755) -> None:
        path = normal(path)
        if path in self._files:
            _refuse(errno.EEXIST, path)
        self._may_change(path, who)
        self._keep(path, File(directory=True, owner=who, mode=mode, modified=0))

    def make_directories(self, path: str, who: str = ROOT, mode: int = 0o755) -> None:
        """The directory and those above it, as far as they are not there."""
        path = normal(path)
        for step in [*_above(path), path]:
            if step not in self._files:
                self._may_change(step, who)
                entry = File(directory=True, owner=who, mode=0o755, modified=0)
                entry.mode = mode if step == path else entry.mode
                self._keep(step, entry)
            elif not self._files[step].directory:
                _refuse(errno.ENOTDIR if step != path else errno.EEXIST, step)

    def remove(self, path: str, who: str = ROOT) -> None:
        path = normal(path)
        if self.stat(path, who).directory:
            _refuse(errno.EISDIR, path)
        self._may_change(path, who)
        self._drop(path)

    def remove_directory(self, path: str, who: str = ROOT) -> None:
        path = normal(path)
        if not self.stat(path, who).directory:
            _refuse(errno.ENOTDIR, path)
        if self.listing(path):
            _refuse(errno.ENOTEMPTY, path)
        self._may_change(path, who)
        self._drop(path)

    def remove_tree(self, path: str, who: str = ROOT) -> None:
        path = normal(path)
        self.stat(path, who)
        inside = [known for known in self._files if known.startswith(f"{path}/")]
        for known in sorted([*inside, path], reverse=True):
            self._may_change(known, who)
            self._drop(known)

    def rename(self, old: str, new: str, who: str = ROOT) -> None:
        """Move a file or a tree, replacing a file that is in the way."""
        old, new = normal(old), normal(new)
        moved = self.stat(old, who)
        there = self._files.get(new)
        if there is not None and there.directory:
            _refuse(errno.ENOTEMPTY if moved.directory else errno.EISDIR, new)
        self._may_change(old, who)
        self._may_change(new, who)
        for path in [known for known in self._files if known == old or known.startswith(old + "/")]:
            file = self._files[path]
            self._drop(path)
            self._keep(new + path.removeprefix(old), file)

    def change(
        self, path: str, who: str = ROOT, *, mode: int | None = None, owner: str | None = None
    ) -> None:
        """chmod and chown. Only root gives files away."""
        path = normal(path)
        file = self.stat(path, who)
        if who not in (ROOT, file.owner) or (owner not in (None, file.owner) and who != ROOT):
            _refuse(errno.EPERM, path)
        file.mode = file.mode if mode is None else mode
        file.owner = file.owner if owner is None else owner
        self._keep(path, file)

    def _may_change(self, path: str, who: str) -> None:
        """Whether `who` may make, replace or remove an entry at `path`."""
        if path == "/":
            return
        directory = self.stat(posixpath.dirname(path), who)
        if not directory.directory:
            _refuse(errno.ENOTDIR, path)
        if not _may(directory, who, _WRITE):
            _refuse(errno.EACCES, path)

    def _keep(self, path: str, file: File) -> None:
        file.modified = self._clock.now()
        self._files[path] = file
        self._ledger.keep("host-file", f"{self._host}:{path}", file)

    def _drop(self, path: str) -> None:
        del self._files[path]
        self._ledger.drop("host-file", f"{self._host}:{path}")


def recalled(ledger: Ledger) -> dict[str, dict[str, File]]:
    """Every file that the ledger holds, by host and path."""
    disks: dict[str, dict[str, File]] = {}
    for identity, file in ledger.recall("host-file", File).items():
        host, _, path = identity.partition(":")
        disks.setdefault(host, {})[path] = file
    return disks


def normal(path: str) -> str:
    """The path from the root, without dots and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _above(path: str) -> list[str]:
    """The directories a path leads through, from the root."""
    parts = path.split("/")[1:-1]
    return ["/", *("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))]


def _may(file: File, who: str, what: int) -> bool:
    return who == ROOT or bool(file.mode & (what << 6 if who == file.owner else what))


def _refuse(code: int, path: str) -> NoReturn:
    raise OSError(code, os.strerror(code), path)
