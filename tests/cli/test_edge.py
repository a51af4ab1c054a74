"""What people describe at the edge, typed at a real server."""

import json

import pytest

from cli import messages
from cli.complaints import Complaint
from cli.edge import NOUNS
from protos.gen.edge.app_pb2 import App
from tests.cli.running import Windlass

APP = "acme/shop 1/1.0"


@pytest.fixture
def windlass(real_windlass: Windlass) -> Windlass:
    return real_windlass


async def test_a_site_is_described_shown_and_cleared_away(windlass: Windlass) -> None:
    place = ("--latitude", "-1.5", "--longitude", "2", "--dynamic-ips", "4")
    ports = ("--image-type", "docker", "--ports", "tcp:80", "--flavor", "small")
    for typed in (
        ("developer", "create", "acme", "--email", "a@x"),
        ("operator", "create", "tele"),
        ("flavor", "create", "small", "--ram", "1024", "--vcpus", "1", "--disk", "1"),
        ("cluster-template", "create", "blue", "--flavor", "small"),
        ("app", "create", APP, *ports, "--delete", "AutoDelete"),
        ("cloudlet", "create", "tele/west", *place),
    ):
        outcome = await windlass(*typed)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out == f"{typed[0]} {typed[2]}: created\n"
    assert (await windlass("app", "update", APP, "--command", "run")).code == 0
    outcome = await windlass("app", "show", "acme//", "-o", "json")
    [shown] = json.loads(outcome.out)["items"]
    assert shown["command"] == "run"
    assert (shown["image_type"], shown["del_opt"]) == ("ImageTypeDocker", "AutoDelete")
    assert (await windlass("app", "show", "nobody//", "-o", "name")).out == ""
    assert (await windlass("app", "show", "nobody//")).err == "there is no app like that\n"
    columns = (await windlass("app", "show")).out.splitlines()[1].split()
    assert "docker" in columns, "as it was typed"
    assert (await windlass("app", "show", "-o", "name")).out == f"app/{APP}\n"
    assert "tele/west" in (await windlass("cloudlet", "show", "--dynamic-ips", "4")).out
    outcome = await windlass("operator", "delete", "tele")
    assert outcome.code == 5
    assert "Operator in use by Cloudlet" in outcome.err
    for noun, name in (
        *(("app", APP), ("cloudlet", "tele/west"), ("operator", "tele")),
        *(("cluster-template", "blue"), ("flavor", "small"), ("developer", "acme")),
    ):
        outcome = await windlass(noun, "delete", name)
        assert (outcome.code, outcome.out) == (0, f"{noun} {name}: deleted\n")


async def test_an_empty_text_clears_and_silence_does_not(windlass: Windlass) -> None:
    await windlass("developer", "create", "acme", "--email", "a@x", "--username", "ann")
    assert (await windlass("developer", "update", "acme", "--email", "")).code == 0
    [shown] = json.loads((await windlass("developer", "show", "-o", "json")).out)["items"]
    assert (shown["email"], shown["username"]) == ("", "ann")
    outcome = await windlass("developer", "update", "acme")
    assert (outcome.code, "nothing is said to change" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    "typed",
    [
        ("app", "create", "shop"),
        ("flavor", "create", "small", "--ram", "much"),
        ("app", "create", APP, "--image-type", "tarball"),
        ("app", "create", APP, "--image-type", ""),
    ],
)
async def test_what_cannot_be_is_not_sent(windlass: Windlass, typed: tuple[str, ...]) -> None:
    assert (await windlass(*typed)).code == 2


async def test_a_refusal_names_what_was_typed(windlass: Windlass) -> None:
    outcome = await windlass("cloudlet", "create", "tele/west", "--dynamic-ips", "many")
    assert outcome.err.startswith("error: --dynamic-ips cannot be 'many'")
    outcome = await windlass("operator", "show")
    assert outcome.err == "there is no operator; windlass operator create makes one\n"


@pytest.mark.parametrize(
    "text", ["ImageTypeDocker", "IMAGE_TYPE_DOCKER", "image-type-docker", "Docker", "1"]
)
def test_words_are_known_in_any_spelling(text: str) -> None:
    app = App()
    messages.put(app, "image_type", text)
    assert app.image_type == 1


def test_a_word_with_two_meanings_is_none() -> None:
    with pytest.raises(Complaint, match="del_opt cannot be 'delete'"):
        messages.put(App(), "del_opt", "delete")


def test_every_flag_leads_to_a_part_of_its_message() -> None:
    from importlib import import_module

    for noun in NOUNS:
        module = import_module(f"protos.gen.edge.{noun.module}_pb2")
        described = module.DESCRIPTOR.message_types_by_name[noun.message]
        for path in (*noun.key, *(flag.path for flag in noun.flags)):
            assert messages.number(described, path)


async def test_instances_are_followed_shown_and_deleted(windlass: Windlass) -> None:
    """Nobody is asked, since there is no resource manager here."""
    for typed in (
        ("flavor", "create", "small", "--ram", "1", "--vcpus", "1", "--disk", "1"),
        ("cloudlet", "create", "tele/west", "--latitude", "1", "--dynamic-ips", "4"),
        ("app", "create", APP, "--image-type", "docker", "--ports", "tcp:80", "--flavor", "small"),
    ):
        assert (await windlass(*typed)).code == 0
    unasked = ("--override", "ignore-crm")
    place = ("--uri", "shop.acme", *unasked)
    instance = f"{APP}/developer/default/home"
    outcome = await windlass("appinst", "create", instance, *place)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"Created successfully\nappinst {instance}: created\n"
    shown = await windlass("appinst", "show", "--state", "ready", "-o", "name")
    assert shown.out == f"appinst/{instance}/acme\n"
    outcome = await windlass("clusterinst", "create", "acme/tele/west/blue", "--nodes", "1")
    assert outcome.code == 1
    assert "not ready, state is CLOUDLET_STATE_NOT_PRESENT" in outcome.err
    outcome = await windlass("appinst", "delete", instance)
    assert outcome.out == f"Deleted AppInst successfully\nappinst {instance}: deleted\n"
    assert (await windlass("appinst", "show", "-o", "name")).out == ""
