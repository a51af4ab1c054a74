"""What is written about the code is held to the code."""

import re
from pathlib import Path

import pytest

from cli.origins import origins
from domain import devserver
from settings import Settings
from tests import docs
from tests.architecture.tree import ROOT, files, project

DOCUMENTS = files("*.md")

CODE = re.compile(r"```.*?\n(.*?)```", re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FILE = re.compile(r"[\w./-]+\.(py|md|toml|yml)|[\w./-]+/[\w./-]*")
"""What looks like a path of ours: a file, or anything with a slash in it."""

IN_EVERY_FOLDER = frozenset({"convert.py"})


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return CODE.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    """The headings of a document, as links name them."""
    headings = HEADING.findall(prose(path))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_documents_are_there() -> None:
    assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md"} <= {path.name for path in DOCUMENTS}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    lost = []
    for link in LINK.findall(prose(path)):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


MADE = "build/"
"""What `make` writes is there only once it has been made."""

OTHERS = ("FILE", "ADDRESS", "HTTP", "TOKEN", "CONTEXTS", "CA", "CERT", "KEY")
"""Variables that are no settings, but of those who call."""


def test_files_named_in_the_architecture_exist() -> None:
    words = set(QUOTED.findall(prose(ROOT / "ARCHITECTURE.md"))) - IN_EVERY_FOLDER
    named = {word for word in words if FILE.fullmatch(word) and not word.startswith(MADE)}
    assert len(named) > 50
    assert not {name for name in named if not (ROOT / name).exists()}


@pytest.mark.parametrize("path", sorted(docs.pasted()), ids=lambda path: str(path.name))
def test_what_is_pasted_is_what_the_code_says(path: Path) -> None:
    assert path.read_text() == docs.pasted()[path], "make docs pastes it anew"


def test_every_setting_is_described() -> None:
    described = docs.SETTINGS.read_text()
    for each in origins(Settings.model_construct()):
        assert f"| `{each.name}` | `{each.variable}` |" in described
        assert f"| {each.description} |" in described
        assert each.description


def test_a_variable_that_is_named_is_a_setting() -> None:
    known = {each.variable for each in origins(Settings.model_construct())}
    known |= {f"WINDLASS_{name}" for name in OTHERS}
    for path in DOCUMENTS:
        named = set(re.findall(r"\bWINDLASS_[A-Z_]+\b", path.read_text()))
        assert named <= known, path.name


def test_the_first_block_of_the_readme_is_what_newcomers_type() -> None:
    block = CODE.search((ROOT / "README.md").read_text())
    assert block is not None
    typed = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert tuple(typed) == docs.FIRST_COMMANDS


def test_what_newcomers_type_is_what_is_tested() -> None:
    recipes = dict(
        re.findall(r"^(\w+):.*\n\t@(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    assert {f"make {target}" for target in recipes} >= set(docs.FIRST_COMMANDS)
    assert recipes["up"] == "$(BIN)/windlass up"  # as tests/e2e starts it


def test_every_flag_of_temporal_is_described() -> None:
    """Whoever runs a Temporal of their own wants to know what ours was measured with."""
    described = (ROOT / "docs" / "operating.md").read_text()
    flags = [word for word in devserver.FLAGS if not word.startswith("--")]
    assert not [flag for flag in flags if f"`{flag}`" not in described]


def test_every_dependency_has_a_reason() -> None:
    described = re.findall(r"^\| `([^`]+)` \| (.+) \|$", _dependencies(), re.MULTILINE)
    needed = project()["project"]
    listed = [*needed["dependencies"]]
    for extra in needed["optional-dependencies"].values():
        listed += extra
    assert [name for name, _ in described] == [_name(each) for each in listed]


def _dependencies() -> str:
    return (ROOT / "docs" / "dependencies.md").read_text()


def _name(requirement: str) -> str:
    return re.split(r"[<>=~ ]", requirement)[0]


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda p: p.name)
def test_a_decision_says_why_what_and_what_it_cost(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {int(path.name[:4])}. ")
    order = [text.index(f"**{part}.**") for part in ("Context", "Decision", "What we gave up")]
    assert order == sorted(order)
