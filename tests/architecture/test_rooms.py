"""The rooms are one list, wherever they are listed, and their names are ours alone."""

import importlib.metadata
from importlib.util import find_spec

import pytest

from tests.architecture.tree import ROOT, files, programs, project, rooms

DISTRIBUTION = "windlass"
BESIDE = {"docs", "requirements", "tests"}
"""Folders at the root that are no rooms."""


def test_the_rooms_on_disk_are_the_rooms_that_are_installed_and_checked() -> None:
    inside = {path.relative_to(ROOT) for path in files()}
    folders = {path.parts[0] for path in inside if len(path.parts) > 1}
    visible = {name for name in folders if not name.startswith(".")}
    assert visible - BESIDE == set(rooms())
    assert sorted(project()["tool"]["importlinter"]["root_packages"]) == sorted(rooms())


def test_the_programs_at_the_root_are_installed() -> None:
    assert sorted(path.stem for path in ROOT.glob("*.py")) == sorted(programs())


@pytest.mark.parametrize("name", [*rooms(), *programs()])
def test_a_name_leads_to_our_own_code(name: str) -> None:
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    assert (ROOT / found.origin).is_relative_to(ROOT)


def test_no_other_distribution_has_one_of_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    others = {name: set(owners.get(name, ())) - {DISTRIBUTION} for name in [*rooms(), *programs()]}
    assert not {name: found for name, found in others.items() if found}


@pytest.mark.parametrize("room", rooms())
def test_a_room_says_what_it_is_for(room: str) -> None:
    first, *_ = (ROOT / room / "__init__.py").read_text().splitlines()
    assert first.startswith('"""')
