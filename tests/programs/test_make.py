"""The Makefile, with programs that only pretend: what it takes for done, and what for failed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs.running import ROOT

ENVIRONMENTS = (".venv", ".venv-libmaas", ".venv-conformance")
MAKE = shutil.which("make") or "make"

PYTHON = """#!/bin/sh
echo "$@" >> log
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *install*) test ! -e offline ;;
esac
"""


class Tree:
    """A folder with the Makefile, and what `make` did there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copy(ROOT / "Makefile", root)
        (root / "requirements").mkdir()
        (root / "pyproject.toml").touch()
        for name in ("dev", "libmaas", "conformance"):
            (root / "requirements" / f"{name}.txt").touch()
        self.program("python", PYTHON)

    def program(self, path: str, script: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(script)
        (self.root / path).chmod(0o755)

    def make(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
        environment |= variables or {"PYTHON": "./python"}
        command = [MAKE, *words]
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True
        )

    @property
    def installations(self) -> int:
        """How often packages were installed by their hashes."""
        log = self.root / "log"
        return log.read_text().count("--require-hashes") if log.exists() else 0


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_is_installed_is_installed_once(tree: Tree, environment: str) -> None:
    for _ in range(2):
        assert tree.make(environment).returncode == 0
    assert tree.installations == 1


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_interrupted_installation_is_begun_anew(tree: Tree, environment: str) -> None:
    half = tree.root / environment / "lib" / "half"
    half.mkdir(parents=True)
    assert tree.make(environment).returncode == 0
    assert tree.installations == 1
    assert not half.exists()


def test_an_installation_that_failed_is_tried_again(tree: Tree) -> None:
    (tree.root / "offline").touch()
    for _ in range(2):
        made = tree.make(".venv")
        assert made.returncode != 0
        assert "error: the packages could not be installed." in made.stderr
    (tree.root / "offline").unlink()
    assert tree.make(".venv").returncode == 0
    assert tree.installations == 3


@pytest.mark.parametrize("target", [*ENVIRONMENTS, "lock"])
@pytest.mark.parametrize("variable", ["PATH", "PYTHON"])
def test_a_machine_without_python_is_told_so(tree: Tree, target: str, variable: str) -> None:
    made = tree.make(target, **{variable: "/nowhere"})
    assert made.returncode != 0
    assert made.stderr.startswith("error: Windlass needs Python 3.11 or newer. do: make PYTHON=")


def test_a_check_that_fails_fails_all(tree: Tree) -> None:
    assert tree.make(".venv").returncode == 0
    programs = ("ruff", "mypy", "lint-imports")
    for name in programs:
        tree.program(f".venv/bin/{name}", "#!/bin/sh\n")
    assert tree.make("check").returncode == 0
    for name in programs:
        tree.program(f".venv/bin/{name}", "#!/bin/sh\nexit 1\n")
        assert tree.make("check").returncode != 0
        tree.program(f".venv/bin/{name}", "#!/bin/sh\n")


def test_everything_that_is_declared_can_be_made(tree: Tree) -> None:
    lines = (tree.root / "Makefile").read_text().replace("\\\n", " ").splitlines()
    [phony] = [line.split()[1:] for line in lines if line.startswith(".PHONY:")]
    targets = {line.split(":")[0] for line in lines if ":" in line}
    assert set(phony) <= targets
