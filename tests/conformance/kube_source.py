"""Kubernetes' own programs, built from the distribution's source package.

Nobody packages them ready to run there, but the source package holds the whole tree with all it is
built from. It is fetched with lists of its own, so nothing of the machine's packages changes."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.environments import PROGRAMS, etcd, found, installed, said
from tests.conformance.processes import EndedBadlyError, done
from tests.conformance.stage import BUILD, MissingError

HOME = BUILD / "kubernetes"
BINARIES = HOME / "bin"
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubemark")

_PACKAGES = ("kubernetes", "golang-github-modern-go-reflect2")
_MINOR = "1.20"
_LOG = BUILD / "kubernetes.log"
_FETCH_SECONDS, _UNPACK_SECONDS, _BUILD_SECONDS = 600, 300, 1800
_APT = Path("/etc/apt")
_GOPATH = HOME / "go"
_TREE = _GOPATH / "src" / "k8s.io" / "kubernetes"
_MARK = "+k8s:openapi-gen="
_NOT_SERVED = ("code-generator", "kube-scheduler", "sample-apiserver", "testdata")
_VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def programs() -> dict[str, Path]:
    """Where each program lies once `built` has returned, and etcd's."""
    ours = {name: BINARIES / name for name in PARTS}
    return ours | {"etcd": etcd("etcd")}


async def built() -> str:
    """Have the programs, and tell which they are. The first time takes minutes."""
    found("apt-get", "apt-cache", package="apt")
    found("dpkg-source", package="dpkg-dev")
    await installed(PROGRAMS)
    go = (await said(PROGRAMS / "go", "version")).split()[2].removeprefix("go")
    stamp = BINARIES / "built"
    if not stamp.exists():
        stamp.write_text(await _build())
    return f"Kubernetes {stamp.read_text()} (Go {go})"


async def _build() -> str:
    """Fetch, unpack, mend and compile. The version that came of it."""
    for folder in (HOME, BINARIES):
        folder.mkdir(parents=True, exist_ok=True)
    version = await _fetch()
    shutil.rmtree(_GOPATH, ignore_errors=True)
    _TREE.parent.mkdir(parents=True)
    mended = HOME / "reflect2"
    shutil.rmtree(mended, ignore_errors=True)
    for package, place in zip(_PACKAGES, (_TREE, mended), strict=True):
        (description,) = HOME.glob(f"{package}_*.dsc")
        await _run(("dpkg-source", "--no-check", "-x", description, place), _UNPACK_SECONDS)
    await asyncio.to_thread(_mend, mended)
    await _generate()
    flags = " ".join(
        f"-X {prefix}{package}.{name}"
        for prefix in ("", "k8s.io/kubernetes/vendor/")
        for package in _VERSIONED
        for name in (f"gitVersion=v{version}", "gitMajor=1", f"gitMinor={version.split('.')[1]}")
    )
    for name in PARTS:
        await _compile(BINARIES / name, f"./cmd/{name}", "-ldflags", f"-s -w {flags}")
    return version


async def _fetch() -> str:
    """The sources, by the machine's own package sources with lists beside the machine's."""
    lists, parts = HOME / "apt" / "lists", HOME / "apt" / "parts"
    for folder in (lists / "partial", parts, HOME / "apt" / "cache"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in (_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))):
        if path.suffix in (".list", ".sources") and path.is_file():
            (parts / path.name).write_text(as_source(path.read_text()))
    options = (
        *("-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}"),
        *("-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={HOME / 'apt' / 'cache'}"),
    )
    try:
        await _run(("apt-get", *options, "update"), _FETCH_SECONDS)
    except EndedBadlyError as error:
        raise MissingError(f"no sources of packages can be listed here: {error}") from error
    shown = await _run(("apt-cache", *options, "showsrc", _PACKAGES[0]), _FETCH_SECONDS)
    versions = re.findall(r"^Version: (?:\S*really)?(\d+\.\d+\.\d+)", shown, re.MULTILINE)
    if not versions:
        raise MissingError("no package source of this machine has Kubernetes' sources")
    if not versions[0].startswith(f"{_MINOR}."):
        raise MissingError(f"the source package is {versions[0]}; the recipe is for {_MINOR}")
    for old in HOME.glob("*.dsc"):
        old.unlink()
    await _run(("apt-get", *options, "source", "--download-only", *_PACKAGES), _FETCH_SECONDS)
    return str(versions[0])


def as_source(text: str) -> str:
    """A list of package sources, in either form, turned to where the sources are."""
    text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
    return re.sub(r"^deb\b(?!-)", "deb-src", text, flags=re.MULTILINE)


def _mend(reflect2: Path) -> None:
    """The tree's own reflect2 crashes in programs that Go 1.18 or a newer one compiled."""
    place = _TREE / "vendor" / "github.com" / "modern-go" / "reflect2"
    shutil.rmtree(place)
    shutil.copytree(reflect2, place, ignore=shutil.ignore_patterns("debian", ".*", "go.mod"))


async def _generate() -> None:
    """Write the Go that describes the API, without which its server does not compile."""
    generator = HOME / "openapi-gen"
    await _compile(generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
    packages = ",".join(await asyncio.to_thread(_described))
    await _run(
        (
            generator,
            *("--input-dirs", packages),
            *("--output-package", "k8s.io/kubernetes/pkg/generated/openapi"),
            *("--output-file-base", "zz_generated.openapi"),
            *("--go-header-file", "hack/boilerplate/boilerplate.generatego.txt"),
            *("--report-filename", HOME / "violations"),
        ),
        _BUILD_SECONDS,
        folder=_TREE,
    )


def _described() -> Sequence[str]:
    """Every package that says of itself that it is part of the API."""
    roots = {"staging/src": "", "pkg": "k8s.io/kubernetes/pkg/"}
    names = set()
    for root, prefix in roots.items():
        for path in (_TREE / root).rglob("*.go"):
            if path.is_file() and _MARK in path.read_text(errors="replace"):
                names.add(prefix + str(path.parent.relative_to(_TREE / root)))
    return sorted(name for name in names if not any(word in name for word in _NOT_SERVED))


async def _compile(target: Path, package: str, *flags: str) -> None:
    words: tuple[str | Path, ...] = ("build", "-trimpath", *flags, "-o", target, package)
    await _run((PROGRAMS / "go", *words), _BUILD_SECONDS, folder=_TREE)


async def _run(words: Sequence[str | Path], seconds: float, folder: Path = HOME) -> str:
    """Run something that takes long, and let others go first."""
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GO111MODULE": "off",
        "GOCACHE": str(HOME / "cache"),
        "GOFLAGS": "",
        "GOPATH": str(_GOPATH),
        "GOTOOLCHAIN": "local",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    }
    return await done(
        words, log=_LOG, seconds=seconds, environment=environment, folder=folder, gently=True
    )
