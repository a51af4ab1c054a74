"""docs/api.md names every method that is served and every reason there is, and nothing else."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from api import build
from api.__main__ import Api
from api.errors import CODES
from api.kaas.routes import ROUTES
from api.launch import client
from domain.agents import STALE
from domain.refusal import Refusal
from domain.repairs import BEYOND_REVIVING
from settings import Settings
from tests.api.caller import NOBODY

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "api.md").read_text()

REASON = re.compile(r"[A-Z]+(_[A-Z]+)*")


def section(heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    _, _, rest = DOCUMENT.partition(f"\n## {heading}\n")
    assert rest, f"there is no section {heading!r}"
    return rest.partition("\n## ")[0]


def rows(text: str) -> list[str]:
    """What the rows of a section's table are about."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def trees(*rooms: str) -> Iterator[ast.Module]:
    for room in rooms:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield ast.parse(file.read_text())


def texts(node: ast.AST) -> set[str]:
    """Every string below a node that could be a reason."""
    found = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return {text for text in found if isinstance(text, str) and REASON.fullmatch(text)}


def named(rooms: Iterable[ast.Module]) -> dict[str, set[str]]:
    """What may be a reason and has a name, by that name."""
    return {
        target.id: texts(node.value)
        for tree in rooms
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def given(tree: ast.Module, names: dict[str, set[str]]) -> set[str]:
    """The reasons written into a module: given to errors, or usual for a kind of them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "reason":
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            found |= texts(node.value) | names.get(name, set())
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(name, ast.Name) and name.id == "usual_reason" for name in targets):
                found |= texts(node.value)
    return found


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Nothing is asked of it."""
    return f"sqlite+aiosqlite:///{tmp_path}/none.db"


async def test_every_method_that_is_served_is_described(settings: Settings) -> None:
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    served = {
        service.name: [method.name for method in service.described.methods]
        for service in api.services
    }
    await api.stop()
    described = re.findall(r"^## `([^`]+)`$", DOCUMENT, re.MULTILINE)
    assert set(described) == set(served)
    for service, methods in served.items():
        assert sorted(rows(section(f"`{service}`"))) == sorted(methods)


def test_every_route_is_described() -> None:
    described = re.findall(r"^\| `(\w+) (/\S+)` \| `(\w+)` \|", section("REST"), re.MULTILINE)
    served = [(route.verb, route.path, method) for method, route in ROUTES.items()]
    assert described == served


def test_every_reason_for_a_refusal_is_described() -> None:
    rooms = list(trees("api", "domain", "store"))
    raised = set().union(*(given(tree, named(rooms)) for tree in rooms))
    described = rows(section("Reasons for refusals"))
    assert sorted(described) == sorted(raised)


def test_every_reason_to_replace_a_machine_is_described_as_one() -> None:
    rows = section("Reasons an operation fails for").splitlines()
    described = {row.split("`")[1] for row in rows if "a repair replaces it" in row.lower()}
    assert described == BEYOND_REVIVING


def test_every_refusal_at_the_edge_is_described() -> None:
    described = re.findall(
        r"^\| `(\w+)` \| (\w+) \| `(.+)` \|", section("Refusals at the edge"), re.MULTILINE
    )
    assert described == [(each.name, CODES[each.kind].name, each.text) for each in Refusal]


def test_every_reason_an_operation_fails_for_is_described() -> None:
    known = set(rows(section("Reasons for refusals")))
    rooms = list(trees("activities", "clients", "workflows"))
    raised = set().union(*(given(tree, named(rooms)) for tree in rooms))
    raised |= {text for tree in rooms for text in texts(tree) if "_" in text}
    raised.add(STALE)  # told by agents, and handed on
    described = rows(section("Reasons an operation fails for"))
    assert sorted(described) == sorted(raised - known)
