"""Whole sites from a file, at a real server; the file is the one that the documents show."""

import json
import re
from pathlib import Path

import pytest

from cli import site
from cli.complaints import Complaint
from cli.edge import NOUNS
from tests.cli.running import ROOT, Windlass

DOCUMENTS = (ROOT / "docs" / "cli.md").read_text()
[EXAMPLE] = re.findall(r"```yaml\n(flavors:.*?)```", DOCUMENTS, re.DOTALL)

ALL = [
    *("flavor small", "developer acme", "operator tele"),
    *("cluster-template blue", "cloudlet tele/west", "app acme/shop/1.0"),
]
FLAVOR = "flavors: [{key: {name: small}, ram: 1, vcpus: 1, disk: 1}]"


@pytest.fixture
def windlass(real_windlass: Windlass) -> Windlass:
    return real_windlass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text(EXAMPLE)
    return file


def write(file: Path, text: str) -> None:
    file.write_text(text)


def lines(done: str, names: list[str] = ALL) -> str:
    return "".join(f"{name}: {done}\n" for name in names)


async def test_a_site_is_made_once_and_taken_away_once(windlass: Windlass, file: Path) -> None:
    for word, names in (("apply", ALL), ("delete", ALL[::-1])):
        done = "created" if word == "apply" else "deleted"
        for told, plan in (
            *((f"would be {done}", ("--plan",)), (f"would be {done}", ("--plan",))),
            *((done, ()), ("nothing to do", ()), ("nothing to do", ("--plan",))),
        ):
            outcome = await windlass(word, "-f", str(file), *plan)
            assert (outcome.code, outcome.err) == (0, "")
            assert outcome.out == lines(told, names)


async def test_only_what_is_other_is_changed(windlass: Windlass, file: Path) -> None:
    await windlass("apply", "-f", str(file))
    await windlass("cloudlet", "update", "tele/west", "--access-uri", "u")
    write(file, EXAMPLE.replace("num_dynamic_ips: 5", "num_dynamic_ips: 7"))
    outcome = await windlass("apply", "-f", str(file), "-o", "json")
    steps = {it["noun"]: it for it in json.loads(outcome.out)["items"]}
    assert steps["cloudlet"]["changes"] == ["num_dynamic_ips"]
    assert {it["step"] for it in steps.values()} == {"update", "nothing"}
    [shown] = json.loads((await windlass("cloudlet", "show", "-o", "json")).out)["items"]
    assert (shown["num_dynamic_ips"], shown["access_uri"]) == (7, "u")


async def test_what_is_shown_can_be_applied(windlass: Windlass, file: Path) -> None:
    await windlass("apply", "-f", str(file))
    shown = [(noun.word, await windlass(noun.word, "show", "-o", "json")) for noun in NOUNS]
    described = {f"{word}s": json.loads(outcome.out)["items"] for word, outcome in shown}
    write(file, json.dumps(described))
    outcome = await windlass("apply", "-f", str(file))
    assert (outcome.code, outcome.out) == (0, lines("nothing to do"))


async def test_what_cannot_be_changed_stops_it_before_anything_is(
    windlass: Windlass, file: Path
) -> None:
    await windlass("flavor", "create", "small", "--ram", "1", "--vcpus", "1", "--disk", "1")
    outcome = await windlass("apply", "-f", str(file))
    assert outcome.code == 1
    assert "flavor small" in outcome.err
    assert (await windlass("operator", "show", "-o", "name")).out == ""


async def test_a_refusal_names_the_record_and_the_rest_goes_on_later(
    windlass: Windlass, file: Path
) -> None:
    write(file, EXAMPLE.replace("tcp:80", "icmp:80"))
    outcome = await windlass("apply", "-f", str(file))
    assert outcome.code == 2
    assert "app acme/shop/1.0: not created" in outcome.err
    assert "icmp is not a supported Protocol" in outcome.err
    write(file, EXAMPLE)
    outcome = await windlass("apply", "-f", str(file))
    assert outcome.out == lines("nothing to do", ALL[:-1]) + lines("created", ALL[-1:])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "has to be a mapping of nothing but lists"),
        ("towers: []", "has to be a mapping of nothing but lists"),
        ("a: [", "cannot be read"),
        ("flavors: {}", "flavors has to be a list"),
        ("flavors: [small]", "flavors, number 1: Flavor has to be a mapping"),
        ("flavors: [{ram: 1}]", "number 1: its key is not whole"),
        ("flavors: [{key: {name: small, size: 1}}]", "FlavorKey has no key.size"),
        ("flavors: [{key: {name: 1.10}}]", "key.name is text and cannot be 1.1"),
        ("flavors: [{key: {name: small}, ram: much}]", "ram cannot be 'much'"),
        ("flavors: [{key: {name: small}, ram: -1}]", "ram cannot be -1"),
        ("flavors: [{key: {name: small}, ram: [1]}]", r"ram cannot be '\[1\]'"),
        ("apps: [{configs: x}]", "configs has to be a list"),
        ("apps: [{image_type: tarball}]", "image_type cannot be 'tarball'"),
        ("flavors: [{key: {name: s}}, {key: {name: s}}]", "flavor s is described twice"),
        ("developers: [{fields: []}]", "Developer has no fields"),
    ],
)
def test_what_is_no_site_is_told_before_anybody_is_asked(
    file: Path, text: str, complaint: str
) -> None:
    file.write_text(text)
    with pytest.raises(Complaint, match=complaint):
        site.read(str(file))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Complaint, match="cannot be read"):
        site.read(str(tmp_path / "none.yaml"))


def test_every_noun_has_its_place_in_the_order() -> None:
    assert sorted(site.ORDER) == sorted(noun.word for noun in NOUNS)
