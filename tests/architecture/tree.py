"""The files of the repository, as git sees them: tracked, or new and not ignored."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
GENERATED = ROOT / "protos" / "gen"
OURSELVES = ROOT / "tests"


def files(*patterns: str) -> list[Path]:
    """Those that match a pattern and are there."""
    words = ("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run([*words, "--", *patterns], check=True, capture_output=True, text=True)
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return sorted({path for path in paths if path.is_file()})


def modules() -> list[Path]:
    """Every Python file that somebody wrote, tests aside."""
    return [
        path
        for path in files("*.py")
        if not (path.is_relative_to(GENERATED) or path.is_relative_to(OURSELVES))
    ]


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def rooms() -> list[str]:
    """The root packages that are listed for installation."""
    include = project()["tool"]["setuptools"]["packages"]["find"]["include"]
    return [pattern.removesuffix("*") for pattern in include]


def programs() -> list[str]:
    """The modules at the root that are listed for installation."""
    listed: list[str] = project()["tool"]["setuptools"]["py-modules"]
    return listed
