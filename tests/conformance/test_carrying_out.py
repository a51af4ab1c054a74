"""How stages are carried out: what is skipped says why, and what fails fails all."""

import importlib
from pathlib import Path

import pytest

from tests.conformance import outcome
from tests.conformance.__main__ import STAGES
from tests.conformance.kube_source import as_source
from tests.conformance.outcome import Outcome, carried_out, table
from tests.conformance.processes import EndedBadlyError
from tests.conformance.stage import ROOT, MissingError, Stage

HOLDS = "def test_a_law_holds() -> None:\n    pass\n"
BREAKS = "def test_a_law_breaks() -> None:\n    raise AssertionError('it does not')\n"
PASSES = "import pytest\n\ndef test_a_law_is_passed_over() -> None:\n    pytest.skip('no law')\n"


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(outcome, "BUILD", tmp_path)
    return tmp_path


def stage(build: Path, tests: str, *, seconds: float = 60) -> Stage:
    path = build / "laws.py"
    path.write_text(tests)

    async def prepare() -> str:
        return "laws 1.0"

    return Stage("laws", "laws hold", prepare, (str(path),), seconds)


def test_every_stage_is_carried_out() -> None:
    found = {}
    for path in sorted((ROOT / "tests" / "conformance").glob("*.py")):
        if path.name != "__main__.py":
            module = importlib.import_module(f"tests.conformance.{path.stem}")
            if isinstance(there := getattr(module, "STAGE", None), Stage):
                found[there.name] = there
    assert found == STAGES


def test_every_stage_is_described() -> None:
    described = (ROOT / "docs" / "conformance.md").read_text()
    assert not [name for name in STAGES if f"| `{name}` |" not in described]


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_stage_has_tests(stage: Stage) -> None:
    assert all("\nasync def test_" in (ROOT / path).read_text() for path in stage.tests)


async def test_what_holds_is_proved(build: Path) -> None:
    told = await carried_out(stage(build, HOLDS))
    assert (told.word, told.versions, told.proved) == ("proved", "laws 1.0", ("a law holds",))


async def test_what_breaks_is_told_in_its_words(build: Path) -> None:
    told = await carried_out(stage(build, HOLDS + BREAKS))
    assert (told.word, told.proved) == ("FAILED", ("a law holds",))
    assert told.failed == ("a law breaks: AssertionError: it does not",)


async def test_what_is_passed_over_is_neither_proved_nor_hidden(build: Path) -> None:
    told = await carried_out(stage(build, PASSES))
    assert (told.word, told.failed) == ("skipped", ())
    assert told.skipped[0].endswith("no law")


@pytest.mark.parametrize("tests", ["", "raise RuntimeError\n"])
async def test_tests_that_are_none_fail(build: Path, tests: str) -> None:
    assert (await carried_out(stage(build, tests))).word == "FAILED"


async def test_tests_that_do_not_end_are_ended(build: Path) -> None:
    endless = "import time\n\ndef test_it_ends() -> None:\n    time.sleep(600)\n"
    told = await carried_out(stage(build, endless, seconds=1))
    assert told.word == "FAILED"
    assert "took more than 1 s" in told.failed[0]


@pytest.mark.parametrize(
    ("error", "word"),
    [(MissingError("no law is here"), "skipped"), (EndedBadlyError("law ended with 1"), "FAILED")],
)
async def test_what_cannot_be_had_is_skipped_and_what_breaks_in_the_making_failed(
    build: Path, error: Exception, word: str
) -> None:
    async def prepare() -> str:
        raise error

    told = await carried_out(stage(build, HOLDS)._replace(prepare=prepare))
    assert told.word == word
    assert str(error) in table([told])


def test_the_table_has_every_sentence() -> None:
    told = Outcome("laws", "laws 1.0", 1.5, ("one holds",), ("two breaks",), ("three: no law",))
    shown = table([told, Outcome("others", skipped=("no others here",))])
    for words in ("laws 1.0", "+ one holds", "! two breaks", "- skipped: three: no law"):
        assert words in shown
    assert shown.endswith("stages: 0 proved, 1 skipped, 1 FAILED")


@pytest.mark.parametrize(
    ("listed", "sources"),
    [
        ("Types: deb\nURIs: them\n", "Types: deb-src\nURIs: them\n"),
        ("deb them main\n# deb no\n", "deb-src them main\n# deb no\n"),
        ("deb-src them main\n", "deb-src them main\n"),
    ],
)
def test_package_sources_are_turned_to_sources(listed: str, sources: str) -> None:
    assert as_source(listed) == sources
