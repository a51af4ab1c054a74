"""docker-compose.yml and the Dockerfile, held to the code as far as that goes without an engine."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from cli.origins import origins
from settings import Settings
from tests.architecture.tree import ROOT, programs, rooms

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

DOCUMENT: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = ("migrate", "api", "worker", "sim")

Part = tuple[str, dict[str, Any]]


@pytest.fixture(params=SERVICES.items(), ids=lambda item: item[0])
def service(request: pytest.FixtureRequest) -> Part:
    part: Part = request.param
    return part


def test_everything_is_there() -> None:
    assert {"postgres", "temporal-schema", "temporal", *OURS} <= SERVICES.keys()


def test_our_variables_are_settings(service: Part) -> None:
    _, of = service
    variables = {name for name in of.get("environment", {}) if name.startswith("WINDLASS_")}
    assert variables <= {each.variable for each in origins(Settings.model_construct())}


def test_nothing_is_published_beyond_this_machine(service: Part) -> None:
    _, of = service
    assert all(port.startswith("127.0.0.1:") for port in of.get("ports", []))


def test_an_image_has_a_version_and_is_ours_or_public(service: Part) -> None:
    name, of = service
    image = re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", of["image"])
    _, colon, tag = image.rpartition(":")
    assert colon
    assert tag != "latest"
    assert ("build" in of) is (name in OURS)


def test_what_is_waited_for_can_be_waited_for(service: Part) -> None:
    _, of = service
    for other, how in of.get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "on-failure"


def test_volumes_are_declared(service: Part) -> None:
    _, of = service
    mounted = {volume.partition(":")[0] for volume in of.get("volumes", [])}
    assert mounted <= DOCUMENT["volumes"].keys()


def test_there_can_be_any_number_of_workers() -> None:
    worker = SERVICES["worker"]
    assert not {"container_name", "ports", "hostname"} & worker.keys()
    assert worker["environment"]["WINDLASS_WORKER__METRICS_PORT"] == "0"


def test_workers_reach_the_machines_of_the_site() -> None:
    """They are loopback addresses where the site runs."""
    assert SERVICES["worker"]["network_mode"] == "service:sim"


@pytest.mark.parametrize("name", ["api", "worker"])
def test_a_process_gets_the_time_to_drain(name: str) -> None:
    assert SERVICES[name]["stop_grace_period"] == "45s"


def test_those_who_need_secrets_share_the_key_and_nobody_else_has_it() -> None:
    having = {
        name
        for name, of in SERVICES.items()
        if any(volume.startswith("keys:") for volume in of.get("volumes", []))
    }
    assert having == {"api", "worker"}


def test_workers_share_the_copies_of_clusters() -> None:
    worker = SERVICES["worker"]
    assert f"backups:{worker['environment']['WINDLASS_BACKUPS']}" in worker["volumes"]
    assert worker["environment"]["WINDLASS_BACKUPS"] in DOCKERFILE


def test_the_image_holds_every_room_and_program() -> None:
    copied = set(re.findall(r"[\w.]+/?", " ".join(re.findall(r"^COPY (.+)$", DOCKERFILE, re.M))))
    assert {f"{room}/" for room in rooms()} <= copied
    assert {f"{program}.py" for program in programs()} <= copied


def test_the_stages_that_are_built_are_there() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    assert {SERVICES[name]["build"]["target"] for name in OURS} <= stages


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_docker_compose_understands_it() -> None:
    words = ["docker-compose", "--file", str(COMPOSE), "config", "--quiet"]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
