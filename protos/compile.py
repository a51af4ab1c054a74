"""Turns the contracts beside this file into the Python under `protos/gen`.

    python -m protos.compile                       writes protos/gen
    python -m protos.compile --check               fails if protos/gen is not what would be written
    python -m protos.compile --descriptors FILE    writes one FileDescriptorSet of all contracts

protobuf knows a file by its path, and two of our contracts are called `api.proto`. So each contract
is first copied to where its Python will live, and its own imports are pointed there; what protoc
writes is never touched afterwards.
"""

import argparse
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

PROTOS = Path(__file__).parent
GEN = PROTOS / "gen"
HOME = "protos/gen"

IMPORT = re.compile(r'^import "(?P<path>[^"]+)";$', re.MULTILINE)

OUTPUTS = ("python_out=", "grpc_python_out=", "mypy_out=quiet:", "mypy_grpc_out=quiet,only_async:")
"""What protoc is asked for. The option is `only_async`; mypy-protobuf's README has it reversed."""


class CompileError(Exception):
    """protoc refused; it has said why on standard error."""


def contracts() -> list[Path]:
    """Every folder beside this file that holds a contract."""
    folders = (path for path in PROTOS.iterdir() if path.is_dir())
    return sorted(folder for folder in folders if any(folder.rglob("*.proto")))


def stage(contract: Path, root: Path) -> None:
    """Copy one contract to where its Python will live, and point its own imports there."""
    home = f"{HOME}/{contract.name}"

    def rebase(found: re.Match[str]) -> str:
        own = (contract / found["path"]).exists()  # google/… comes from a wheel
        return f'import "{home}/{found["path"]}";' if own else found[0]

    for proto in contract.rglob("*.proto"):
        target = root / home / proto.relative_to(contract)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(IMPORT.sub(rebase, proto.read_text(encoding="utf-8")), encoding="utf-8")


def run_protoc(options: Sequence[str]) -> None:
    """Run protoc over all contracts, staged in a tree that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="windlass-protos-") as staged:
        root = Path(staged)
        for contract in contracts():
            stage(contract, root)
        files = sorted(str(proto.relative_to(root)) for proto in root.rglob("*.proto"))
        google = resources.files("grpc_tools") / "_proto"
        if protoc.main(["protoc", f"-I{root}", f"-I{google}", *options, *files]) != 0:
            raise CompileError("protoc refused the contracts; its reasons are above")


def generate(into: Path) -> Path:
    """Write all generated code below the directory `into`; the answer is its `protos/gen`."""
    scripts = Path(sysconfig.get_path("scripts"))
    plugins = [
        f"--plugin={name}={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    run_protoc([*plugins, *(f"--{output}{into}" for output in OUTPUTS)])
    gen = into / HOME
    for folder in [gen, *(path for path in gen.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    return gen


def write_descriptors(target: Path) -> None:
    """Write every contract, and what it imports, as one FileDescriptorSet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    run_protoc(["--include_imports", f"--descriptor_set_out={target}"])


def write_code() -> None:
    """Replace `protos/gen` by a fresh one. Nothing is lost if protoc refuses."""
    with tempfile.TemporaryDirectory(prefix="windlass-gen-") as fresh:
        gen = generate(Path(fresh))
        shutil.rmtree(GEN, ignore_errors=True)
        shutil.copytree(gen, GEN)


def differences() -> list[str]:
    """The generated files that are missing, stale or in the way, sorted."""
    with tempfile.TemporaryDirectory(prefix="windlass-gen-") as fresh:
        wanted, found = _contents(generate(Path(fresh))), _contents(GEN)
    names = wanted.keys() | found.keys()
    return sorted(name for name in names if wanted.get(name) != found.get(name))


def _contents(gen: Path) -> dict[str, bytes]:
    files = (path for path in gen.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(gen).as_posix(): path.read_bytes() for path in files}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m protos.compile", description="Compile protos.")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--check", action="store_true", help="compare protos/gen, write nothing")
    chosen.add_argument("--descriptors", type=Path, metavar="FILE", help="write descriptors only")
    asked = parser.parse_args(arguments)
    try:
        if asked.descriptors:
            write_descriptors(asked.descriptors)
        elif not asked.check:
            write_code()
        elif stale := differences():
            print(f"protos/gen is stale, run `make protos`: {', '.join(stale)}", file=sys.stderr)
            return 1
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
