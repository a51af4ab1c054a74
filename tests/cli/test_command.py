import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from cli import options
from cli.__main__ import app
from cli.calling import Terms
from cli.printing import Format
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, Refusal, told
from tests.cli.running import ROOT, Windlass, in_process, spawned

STRANGERS = frozenset(
    {
        *("temporalio", "sqlalchemy", "uvicorn", "starlette", "asyncssh", "lightkube"),
        *("activities", "agent", "api", "clients", "sim", "store", "workflows"),
    }
)
"""What the command has no business with."""

HEAVY = frozenset({"asyncio", "domain", "google", "grpc", "httpx2", "protos", "settings", "yaml"})
"""What a help text has no use for. (typer itself brings pydantic.)"""

WITNESS = """
import sys
from cli.__main__ import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


EDGE = (
    *("developer", "operator", "flavor", "cluster-template", "app", "cloudlet"),
    *("clusterinst", "appinst"),
)


def leaves(
    group: TyperGroup, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from leaves(command, (*path, name))
        else:
            assert isinstance(command, TyperCommand)
            yield (*path, name), command


def commands() -> list[tuple[tuple[str, ...], TyperCommand]]:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return list(leaves(root))


async def imported(*arguments: str) -> tuple[int, set[str]]:
    process = await create_subprocess_exec(
        sys.executable, "-c", WITNESS, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
    _, err = await process.communicate()
    code, *modules = err.decode().splitlines()[-1].split()
    return int(code), set(modules)


def test_a_change_is_followed_for_as_long_as_it_may_take() -> None:
    """A creation has 4 hours, and any node may wait two for a machine."""
    changing = (
        *("cluster create", "cluster delete", "cluster scale", "cluster upgrade"),
        "pool add",
        "pool scale",
        "pool delete",
    )
    limits = {
        " ".join(path): parameter.default
        for path, command in commands()
        for parameter in command.params
        if "--timeout" in parameter.opts
    }
    assert {limits[name] for name in changing} == {"4h"}


def test_every_command_there_should_be_is_there() -> None:
    assert {" ".join(path) for path, _ in commands()} == {
        *("cluster create", "cluster get", "cluster list", "cluster delete"),
        *("cluster scale", "cluster nodes", "cluster watch", "cluster kubeconfig"),
        *("cluster upgrade", "cluster upgrades"),
        *("cluster why", "cluster repair", "cluster policy"),
        *("machine quarantined", "machine lift"),
        *("pool add", "pool scale", "pool delete"),
        *("op list", "op get", "op watch", "op cancel"),
        *("op pause", "op resume", "op approve"),
        *("certs init", "login", "logout", "whoami", "audit list", "audit verify"),
        *(f"user {verb}" for verb in ("add", "list", "passwd", "disable", "enable")),
        *(f"token {verb}" for verb in ("create", "list", "revoke")),
        *(f"context {verb}" for verb in ("list", "use", "remove")),
        *("secrets keys", "secrets rotate-key"),
        *("config show", "config catalogue", "doctor", "version", "up", "exec"),
        *(f"{noun} {verb}" for noun in EDGE for verb in ("create", "delete", "show")),
        *("developer update", "app update", "cloudlet update", "clusterinst update"),
        *("apply", "delete"),
        *("pod list", "pod inspect", "pod logs", "image list", "image inspect", "events", "trace"),
        *(f"node {verb}" for verb in ("list", "watch", "cordon", "uncordon", "drain", "free")),
        *(f"instance {verb}" for verb in ("create", "start", "stop", "destroy")),
        *(f"instance {verb}" for verb in ("list", "watch", "why", "logs", "exec")),
        *(
            f"storage {verb}"
            for verb in ("status", "nodes", "radar", "daemons", "pools", "upgrade")
        ),
        *(f"storage osd {verb}" for verb in ("list", "out", "in")),
        *(f"storage pool {verb}" for verb in ("list", "create", "delete")),
    }


@pytest.mark.parametrize(("path", "command"), commands(), ids=[" ".join(p) for p, _ in commands()])
def test_help_mentions_every_option(path: tuple[str, ...], command: TyperCommand) -> None:
    outcome = in_process(*path, "--help")
    assert outcome.code == 0
    for parameter in command.params:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
        assert all(name is not None and name in outcome.out for name in names)
    for name in ("--address", "--http", "-o", "--output", "--debug", "--color", "--no-color"):
        assert name in outcome.out


@pytest.mark.parametrize("group", [(), ("cluster",), ("op",), ("config",)])
def test_a_command_that_only_has_commands_shows_them(group: tuple[str, ...]) -> None:
    outcome = in_process(*group)
    assert outcome.code == 2
    assert "Commands:" in outcome.out
    assert outcome.out == in_process(*group, "--help").out


def test_no_help_is_cut_off_where_commands_are_listed() -> None:
    for group in ((), ("cluster",), ("op",), ("config",)):
        listing = in_process(*group).out.partition("Commands:")[2]
        assert "..." not in listing


async def test_help_loads_nothing_heavy() -> None:
    for arguments in (("--help",), ("cluster", "create", "--help")):
        code, modules = await imported(*arguments)
        assert code == 0
        assert modules & (HEAVY | STRANGERS) == set()


async def test_asking_loads_nothing_that_is_not_needed(peer: Peer) -> None:
    peer.clusters["hello"] = kaas.ClusterDetailItem(name="hello", kubeconfig="kind: Config")
    peer.stories["op-1"] = told("op-1")
    for arguments in (
        ("cluster", "get", "hello"),
        ("op", "watch", "op-1"),
        ("cluster", "list", "-o", "json"),
    ):
        code, modules = await imported("--address", peer.address, *arguments)
        assert code == 0
        assert modules & (STRANGERS | {"domain", "httpx2", "settings"}) == set()


async def test_terms_may_stand_before_and_after_and_after_wins(
    peer: Peer, windlass: Windlass
) -> None:
    before = await windlass("-o", "json", "cluster", "list")
    both = await windlass("-o", "name", "cluster", "list", "-o", "json")
    assert before.out == both.out == '{\n  "items": []\n}\n'


def test_silence_leaves_the_earlier_terms_as_they_were() -> None:
    earlier = Terms(address="a:1", output=Format.JSON, debug=True, color=True)
    assert Terms().over(earlier) == earlier
    assert Terms(color=False).over(earlier).color is False
    assert Terms().over(Terms(color=False)).color is False


async def test_an_address_typed_beats_the_environment(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_ADDRESS", "127.0.0.1:1")
    assert (await windlass("cluster", "list", "--address", peer.address)).code == 0
    assert (await windlass("cluster", "list")).code == 3


@pytest.mark.parametrize(
    ("flags", "environment", "coloured"),
    [
        ((), {}, False),
        (("--color",), {}, True),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color",), {"NO_COLOR": "1"}, True),
        (("--no-color",), {"FORCE_COLOR": "1"}, False),
    ],
)
async def test_colour_is_for_those_who_want_it(
    peer: Peer,
    windlass: Windlass,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    environment: dict[str, str],
    coloured: bool,
) -> None:
    peer.clusters["hello"] = kaas.ClusterDetailItem(name="hello", status=kaas.RUNNING)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    outcome = await windlass("cluster", "list", *flags)
    assert ("\x1b[" in outcome.out) is coloured


async def test_colour_makes_no_terminal_of_a_pipe(peer: Peer, windlass: Windlass) -> None:
    peer.stories["op-1"] = told("op-1")
    outcome = await windlass("op", "watch", "op-1", "--color")
    assert outcome.out.count("\n") == 7
    assert "\x1b[1A" not in outcome.out


async def test_a_reader_who_has_enough_is_no_error(peer: Peer) -> None:
    for number in range(4000):
        name = f"cluster-{number:05}-{'x' * 40}"
        peer.clusters[name] = kaas.ClusterDetailItem(name=name, status=kaas.RUNNING)
    process = await create_subprocess_exec(
        *("/bin/sh", "-c", f"{sys.executable} -m cli cluster list -o name | head -n 1"),
        cwd=ROOT,
        env={**os.environ, "WINDLASS_ADDRESS": peer.address},
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate()
    assert out.decode() == f"cluster/cluster-00000-{'x' * 40}\n"
    assert err == b""


async def test_version_shows_both_sides(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("version", "-o", "json")
    document = json.loads(outcome.out)
    assert document["client"].keys() == {"version", "python", "platform"}
    assert document["server"] == {
        "git_version": "v0.1.0+abc",
        "git_commit": "abc",
        "git_tree_state": "clean",
        "build_date": "2026-03-14T00:00:00Z",
        "go_version": "3.11.9",
        "compiler": "CPython",
        "platform": "linux/amd64",
    }
    lines = (await windlass("version")).out.splitlines()
    assert [line.split()[0] for line in lines] == ["SIDE", "client", "server"]


async def test_version_needs_no_server(peer: Peer, windlass: Windlass) -> None:
    peer.refusals["GetVersionInformation"] = Refusal(grpc.StatusCode.INTERNAL, "broken")
    outcome = await windlass("version", "-o", "json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["server"] is None
    assert outcome.err == "the server did not say: broken\n"


async def test_config_shows_every_setting_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "WINDLASS_DATABASE": "postgresql+asyncpg://windlass:hush@127.0.0.1/windlass",
        "WINDLASS_MAAS__API_KEY": "con:tok:hush",
        "WINDLASS_KEY_COMMAND": '["vault", "-token=hush"]',
        "WINDLASS_CEPH__URLS": '["https://ceph.example/?api_key=hush"]',
    }
    process = await spawned("config", "show", "-o", "json", **environment)
    out, _ = await process.communicate()
    found = {item["name"]: item for item in json.loads(out)["items"]}
    assert process.returncode == 0
    assert found["maas.api_key"]["value"] == "***"
    assert found["database"]["value"] == "postgresql+asyncpg://windlass:***@127.0.0.1/windlass"
    assert found["database"]["origin"] == "environment"
    assert found["key_command"]["value"] == "***"
    assert found["grpc_address"]["origin"] == "default"
    assert b"hush" not in out


async def test_config_names_what_is_wrong_without_its_value() -> None:
    process = await spawned("config", "show", WINDLASS_LOG_LEVEL="hush", WINDLASS_MAAS__AT_ONCE="x")
    out, err = await process.communicate()
    assert process.returncode == 1
    assert out == b""
    assert b"error: the settings are not valid" in err
    assert b"  log_level: " in err
    assert b"  maas.at_once: " in err
    assert b"hush" not in err


async def test_config_shows_the_releases_on_offer(tmp_path: Path) -> None:
    process = await spawned("config", "catalogue")
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert re.search(rb"^1\.32\.1 +jammy +yes$", out, re.MULTILINE)
    assert re.search(rb"^1\.33\.0 +noble +-$", out, re.MULTILINE)
    path = tmp_path / "catalogue.toml"
    path.write_text('default = "1.33"\nreleases = [{ version = "1.33", series = "noble" }]\n')
    process = await spawned("config", "catalogue", WINDLASS_CATALOGUE=str(path))
    _, err = await process.communicate()
    assert process.returncode == 1
    assert b"entry 1 of releases: version: '1.33' is not a version" in err
    assert b"WINDLASS_CATALOGUE" in err


async def test_config_tells_origins_to_those_who_ask() -> None:
    process = await spawned("config", "show", "--origin")
    out, _ = await process.communicate()
    head, *rows = out.decode().splitlines()
    assert head.split() == ["NAME", "VALUE", "ORIGIN", "VARIABLE"]
    assert any(row.split()[-1] == "WINDLASS_GRPC_ADDRESS" for row in rows)


def complete(monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    monkeypatch.setenv("_WINDLASS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    words = line.split(" ")
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    outcome = in_process()
    assert outcome.err == ""
    return outcome.out.split()


async def test_the_shell_completes_what_there_is(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.clusters["hello"] = kaas.ClusterDetailItem(name="hello", status=kaas.RUNNING)
    peer.clusters["other"] = kaas.ClusterDetailItem(name="other", status=kaas.RUNNING)
    peer.stories["op-1"] = told("op-1")

    async def found(line: str) -> list[str]:
        return await asyncio.to_thread(complete, monkeypatch, line)

    assert await found("windlass cluster get ") == ["hello", "other"]
    assert await found("windlass cluster delete h") == ["hello"]
    assert await found("windlass op watch ") == ["op-1"]
    assert await found("windlass cluster de") == ["delete"]
    monkeypatch.delenv("WINDLASS_ADDRESS")
    line = f"windlass --address {peer.address} cluster nodes o"
    assert await found(line) == ["other"]
    peer.hung.add("GetClusterList")
    assert await found(line) == []


def test_every_stage_can_be_typed() -> None:
    assert {each.name for each in options.StageName} == set(ops.Stage.keys()) - {
        "STAGE_UNSPECIFIED"
    }


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *(("90s", 90.0), ("30m", 1800.0), ("1h30m", 5400.0), ("45", 45.0), ("1h2m3s", 3723.0)),
        *(("", None), ("0", None), ("0m", None)),
    ],
)
def test_durations_are_typed_as_people_say_them(text: str, meant: float | None) -> None:
    assert options.seconds(text) == meant
