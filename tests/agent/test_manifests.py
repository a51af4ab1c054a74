"""Manifests load in the appc schema, whatever images and orders are called and made of."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent import appc
from agent.manifests import builtin_config, builtin_image, image_id, image_manifest, pod_manifest
from agent.orders import Order
from agent.podman.images import PodmanImages, _told
from agent.podman.rest import Rest
from agent.process import cgroup
from agent.runtime import PortMap
from agent.uris import BUILTINS
from domain.pod import Image

IDENTIFIER = re.compile(r"[a-z0-9]+([-._~/][a-z0-9]+)*")
NAME = re.compile(r"[a-z0-9]+([-][a-z0-9]+)*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ARCHITECTURES = {"amd64", "i386", "aarch64", "aarch64_be", "armv6l", "armv7l", "armv7b"}


def check_names(pairs: list[dict[str, str]]) -> dict[str, str]:
    for each in pairs:
        assert IDENTIFIER.fullmatch(each["name"]), each
        assert isinstance(each["value"], str)
    found = {each["name"]: each["value"] for each in pairs}
    assert len(found) == len(pairs), "a name comes once"
    return found


def check_app(app: dict[str, Any]) -> None:
    assert app["user"]
    assert app["group"]
    assert app.get("workingDirectory", "/").startswith("/")
    assert all(isinstance(word, str) for word in app["exec"])
    names = [each["name"] for each in app["environment"]]
    assert len(set(names)) == len(names)
    assert all(VARIABLE.fullmatch(name) for name in names)


def loaded_image(manifest: str) -> dict[str, Any]:
    """An image's manifest, as far as the schema accepts it."""
    told: dict[str, Any] = json.loads(manifest)
    assert (told["acKind"], told["acVersion"]) == ("ImageManifest", "0.8.11")
    assert IDENTIFIER.fullmatch(told["name"])
    labels = check_names(told["labels"])
    assert "name" not in labels
    assert labels.get("os", "linux") == "linux"
    assert labels.get("arch", "amd64") in ARCHITECTURES
    notes = check_names(told["annotations"])
    assert re.match(r"\d{4}-\d\d-\d\dT", notes.get("created", "2026-01-01T"))
    assert notes.get("homepage", "https://x").startswith("http")
    check_app(told["app"])
    return told


def loaded_pod(manifest: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(manifest)
    assert (told["acKind"], told["acVersion"]) == ("PodManifest", "0.8.11")
    check_names(told["annotations"])
    for app in told["apps"]:
        assert NAME.fullmatch(app["name"])
        assert re.fullmatch(r"sha512-[0-9a-f]{64}", app["image"]["id"])
        assert IDENTIFIER.fullmatch(app["image"]["name"])
        check_names(app["annotations"])
        check_app(app["app"])
    for port in told["ports"]:
        assert NAME.fullmatch(port["name"])
    return told


@pytest.mark.parametrize("user", ["", "1000", "1000:1000", "nobody:nogroup", ":5", None])
def test_the_manifest_of_any_image_loads(user: str | None) -> None:
    config = {
        "User": user,
        "Cmd": ["/bin/x"],
        "Env": ["A=1", "A=2", "with-dash=3", "=4", "PATH=/bin"],
        "WorkingDir": "relative",
    }
    labels = (
        ("version", "1"),
        ("Maintainer", "A"),
        ("maintainer", "B"),
        ("name", "x"),
        ("os", "linux"),
        ("arch", "arm64"),
        ("__odd__", "c"),
    )
    notes = (
        ("created", "yesterday"),
        ("homepage", "none"),
        ("org.OpenContainers.image_title", "X"),
    )
    name = "127.0.0.1:5000/Team/__App__"
    told = loaded_image(image_manifest(name, labels, config, notes))
    who, _, group = (user or "").partition(":")
    assert (told["app"]["user"], told["app"]["group"]) == (who or "0", group or "0")
    assert told["name"] == "127.0.0.1_5000/team/app"
    assert {"name": "arch", "value": "aarch64"} in told["labels"]


@pytest.mark.parametrize("arch", ["riscv64", "s390x"])
def test_an_architecture_that_the_schema_does_not_know_is_left_out(arch: str) -> None:
    told = loaded_image(image_manifest("x", (("os", "linux"), ("arch", arch)), {}, ()))
    assert [each["name"] for each in told["labels"]] == ["os"]


@pytest.mark.parametrize("program", BUILTINS)
def test_the_manifest_of_what_is_built_in_loads(program: str) -> None:
    loaded_image(builtin_image(BUILTINS[program]).manifest)


@pytest.mark.parametrize("image", [Image(id=""), builtin_image(BUILTINS["idle"])])
@pytest.mark.parametrize("command", [(), ("sleep", "1")])
def test_the_manifest_of_any_pod_loads(image: Image, command: tuple[str, ...]) -> None:
    """Also of one whose image could not be had."""
    order = Order(
        instance="One/Two",
        tenant="Träger",
        uri="docker://Registry.example:5000/No/Such@Image",
        environment=(("A", "secret"), ("b.c", "x")),
        command=command,
        ports=(PortMap(source=8080, destination=80),),
    )
    notes = order.annotations("N 1")
    told = loaded_pod(pod_manifest(order.spec(), image, notes))
    (app,) = told["apps"]
    assert [(each["name"], each["value"]) for each in app["annotations"]] == list(notes)
    assert "secret" not in json.dumps(told)
    assert (app["image"]["id"] == appc.NO_IMAGE) is (not image.id)


async def test_an_image_that_is_built_in_has_one_id_on_all_nodes(tmp_path: Path) -> None:
    """Whatever podman made of it there, whose own id depends on when and on what busybox."""
    here = builtin_image(BUILTINS["web"])
    rest = Rest(tmp_path / "podman.sock")
    images = PodmanImages(rest, tmp_path, tmp_path)
    for theirs in ("a" * 64, "b" * 64):
        told = {"Id": theirs, "RepoTags": ["windlass.local/web:latest"], "Os": "linux"}
        told |= {"Architecture": "amd64"}
        config = images._config(theirs, told)
        assert config == builtin_config(BUILTINS["web"])
        assert _told(told, config).id == here.id == image_id(config)
    other = {"RepoTags": ["example.com/windlass.local/web:latest"]}
    assert image_id(images._config("a" * 64, other)) != here.id
    await rest.close()


CGROUPS = {
    "unified alone": ("0::/system.slice/x.service\n", "/system.slice/x.service"),
    "version 1 alone": ("5:memory:/a/m\n1:name=systemd:/a/b\n", "/a/b"),
    "mixed, in systemd's": ("4:memory:/\n1:name=systemd:/user.slice/s\n0::/\n", "/user.slice/s"),
    "mixed, in the unified one": ("4:memory:/m\n1:name=systemd:/s\n0::/u\n", "/u"),
    "mixed, in that of a controller": ("9:name=systemd:/\n4:memory:/m/x\n0::/\n", "/m/x"),
    "in none": ("9:name=systemd:/\n0::/\n", "/"),
    "with a colon in it": ("0::/a:b\n", "/a:b"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_the_cgroup_of_a_process_on_mixed_hierarchies(case: str) -> None:
    told, found = CGROUPS[case]
    assert cgroup(told) == found
