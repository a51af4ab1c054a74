"""The kubeconfig file on disk: found as kubectl finds it, changed all at once or not at all."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cli.complaints import Code, Complaint
from domain import kubeconfig
from domain.errors import Invalid

BACKUP = ".windlass-backup"
LOCK = ".lock"
"""kubectl takes a file of this name too, so we never write at the same time."""

LOCK_SECONDS = 10.0
LOCK_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Merged:
    """What a merge left behind."""

    context: str
    """The current context now."""
    backup: Path | None
    """The file as it was. None: there was no file, or nothing to change."""


def default_path() -> Path:
    """The first file of $KUBECONFIG that exists, else its last; without it ~/.kube/config."""
    files = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not files:
        return Path.home() / ".kube" / "config"
    return next((file for file in files if file.exists()), files[-1])


def merge(path: Path, text: str, *, switch: bool = False, patience: float = LOCK_SECONDS) -> Merged:
    """Merge the kubeconfig `text` into the file, which nobody ever sees half written.

    Only its owner may read it afterwards. Merging the same again writes nothing, and so keeps the
    backup. A link is followed: the file it leads to is replaced. Comments in the file are lost."""
    path = Path(os.path.realpath(path.expanduser()))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path, patience):
            return _merge(path, text, switch)
    except OSError as error:
        raise Complaint(
            f"cannot write {path}: {error.strerror}", do="name another file with --file"
        ) from error


def _merge(path: Path, text: str, switch: bool) -> Merged:
    before = path.read_bytes() if path.exists() else None
    present = _document(before or b"", str(path))
    try:
        after = kubeconfig.merged(
            present, _document(text.encode(), "the cluster's kubeconfig"), switch=switch
        )
    except Invalid as error:
        raise Complaint(f"cannot merge into {path}: {error}", do=error.do) from error
    context = str(after.get("current-context", ""))
    if before is not None and after == present:
        return Merged(context=context, backup=None)
    backup = None
    if before is not None:
        backup = path.with_name(path.name + BACKUP)
        _write(backup, before)
    _write(path, yaml.safe_dump(after, sort_keys=False).encode())
    return Merged(context=context, backup=backup)


def _document(content: bytes, where: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(content.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Complaint(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise Complaint(f"{where} is not a kubeconfig: it holds no mapping")
    return document


def _write(path: Path, content: bytes) -> None:
    """Put content into place in one step: after a crash the file is the old one or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.windlass")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _locked(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock file. One left behind by a crash is named, never taken away by us."""
    lock = path.with_name(path.name + LOCK)
    deadline = time.monotonic() + patience
    while True:
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError:
            if time.monotonic() >= deadline:
                raise Complaint(
                    f"{path} is locked by {lock}",
                    Code.REFUSED,
                    do="wait for the kubectl or windlass that is writing; if none is, remove it",
                ) from None
            time.sleep(LOCK_LOOK_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
