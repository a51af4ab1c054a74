"""Migrations are one chain, also after two that were written at the same time came together."""

import re

from tests.architecture.tree import ROOT

VERSIONS = ROOT / "store" / "migrations" / "versions"


def test_migrations_follow_one_another_and_are_numbered_so() -> None:
    found = [
        (path.name.partition("_")[0], *re.findall(r'^(?:down_)?revision = "?(\w+)"?$', text, re.M))
        for path in sorted(VERSIONS.glob("r*.py"))
        for text in [path.read_text()]
    ]
    numbers = [f"r{number:04}" for number in range(1, len(found) + 1)]
    assert found == list(zip(numbers, numbers, ["None", *numbers[:-1]], strict=True))
