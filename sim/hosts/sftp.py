"""SFTP onto a simulated disk, as the user who logged in."""

import posixpath
import stat
from collections.abc import AsyncIterator

import asyncssh
from asyncssh import SFTPAttrs, SFTPName

from sim.hosts.disk import ROOT, Disk, File

_ID = 1000


class _Open:
    """A file somebody has open. What is written reaches the disk at once."""

    def __init__(self, path: str, *, append: bool) -> None:
        self.path = path
        self.append = append


class DiskSftp(asyncssh.SFTPServer):
    """Serves one session. No links, no locks; times are the disk's own. What the base class would
    do to the files of this machine is overridden, all of it."""

    def __init__(self, channel: "asyncssh.SSHServerChannel[bytes]", disk: Disk, home: str) -> None:
        super().__init__(channel)
        self._disk = disk
        self._home = home
        self._who = str(channel.get_connection().get_extra_info("username"))

    def _path(self, path: bytes) -> str:
        return posixpath.normpath(posixpath.join(self._home, path.decode()))

    def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> object:
        name, disk = self._path(path), self._disk
        there = disk.exists(name)
        if there and pflags & asyncssh.FXF_EXCL:
            raise FileExistsError(17, "File exists", name)
        if pflags & asyncssh.FXF_CREAT and not there:
            mode = 0o644 if attrs.permissions is None else stat.S_IMODE(attrs.permissions)
            disk.write(name, b"", self._who, mode=mode)
        elif pflags & asyncssh.FXF_TRUNC:
            disk.write(name, b"", self._who)
        elif pflags & asyncssh.FXF_WRITE:
            disk.write(name, b"", self._who, append=True)
        if pflags & asyncssh.FXF_READ:
            disk.read(name, self._who)
        return _Open(name, append=bool(pflags & asyncssh.FXF_APPEND))

    def close(self, file_obj: object) -> None:
        """Nothing is held back, so there is nothing to do."""

    def read(self, file_obj: object, offset: int, size: int) -> bytes:
        return self._disk.read(_opened(file_obj).path)[offset : offset + size]

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        file = _opened(file_obj)
        held = self._disk.read(file.path)
        offset = len(held) if file.append else offset
        whole = held[:offset].ljust(offset, b"\0") + data + held[offset + len(data) :]
        self._disk.write(file.path, whole)
        return len(data)

    def fsync(self, file_obj: object) -> None:
        """Written is kept: see `Disk`."""

    def stat(self, path: bytes) -> SFTPAttrs:
        return _attributes(self._disk.stat(self._path(path), self._who))

    def lstat(self, path: bytes) -> SFTPAttrs:
        return self.stat(path)

    def fstat(self, file_obj: object) -> SFTPAttrs:
        return _attributes(self._disk.stat(_opened(file_obj).path))

    def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        if attrs.permissions is not None:
            self._disk.change(self._path(path), self._who, mode=stat.S_IMODE(attrs.permissions))

    def lsetstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        self.setstat(path, attrs)

    def fsetstat(self, file_obj: object, attrs: SFTPAttrs) -> None:
        self.setstat(_opened(file_obj).path.encode(), attrs)

    async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        directory = self._path(path)
        yield SFTPName(b".", attrs=_attributes(self._disk.stat(directory, self._who)))
        for name in self._disk.listing(directory, self._who):
            file = self._disk.stat(posixpath.join(directory, name))
            yield SFTPName(name.encode(), attrs=_attributes(file))

    def remove(self, path: bytes) -> None:
        self._disk.remove(self._path(path), self._who)

    def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        mode = 0o755 if attrs.permissions is None else stat.S_IMODE(attrs.permissions)
        self._disk.make_directory(self._path(path), self._who, mode)

    def rmdir(self, path: bytes) -> None:
        self._disk.remove_directory(self._path(path), self._who)

    def realpath(self, path: bytes) -> bytes:
        return self._path(path).encode()

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        if self._disk.exists(self._path(newpath)):
            raise FileExistsError(17, "File exists", newpath)
        self.posix_rename(oldpath, newpath)

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        self._disk.rename(self._path(oldpath), self._path(newpath), self._who)

    def readlink(self, path: bytes) -> bytes:
        raise asyncssh.SFTPOpUnsupported(f"{path.decode()} is no link: there are none")

    def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPOpUnsupported(f"no link to {oldpath.decode()} at {newpath.decode()}")

    def link(self, oldpath: bytes, newpath: bytes) -> None:
        self.symlink(oldpath, newpath)

    def statvfs(self, path: bytes) -> asyncssh.SFTPVFSAttrs:
        raise asyncssh.SFTPOpUnsupported(f"{path.decode()} is on no file system")

    def fstatvfs(self, file_obj: object) -> asyncssh.SFTPVFSAttrs:
        return self.statvfs(_opened(file_obj).path.encode())


def _opened(file_obj: object) -> _Open:
    if not isinstance(file_obj, _Open):
        raise asyncssh.SFTPInvalidHandle("not an open file")
    return file_obj


def _attributes(file: File) -> SFTPAttrs:
    kind = stat.S_IFDIR if file.directory else stat.S_IFREG
    owner = 0 if file.owner == ROOT else _ID
    when = int(file.modified)
    return SFTPAttrs(
        size=len(file.text),
        uid=owner,
        gid=owner,
        permissions=kind | file.mode,
        atime=when,
        mtime=when,
    )
