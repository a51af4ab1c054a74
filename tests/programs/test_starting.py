"""Settings that are wrong are named by every program, and their values by none."""

import secrets

import pytest

from tests.programs.running import ended, surroundings

PROGRAMS = {
    "api": ("-m", "api"),
    "command": ("-m", "cli", "config", "show"),
    "site": ("-m", "sim"),
    "store": ("-m", "store", "check"),
    "worker": ("worker.py",),
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_secret_under_a_wrong_name_is_not_shown(program: str) -> None:
    secret = secrets.token_hex(9)
    environment = surroundings(WINDLASS_MAAS__API_KEYY=secret, WINDLASS_SITE__PORT=secret)
    ending = await ended(*PROGRAMS[program], environment=environment)
    said, *lines, do = ending.refusal
    assert said == "error: the settings are not valid"
    assert {line.split(":")[0].strip() for line in lines} == {"maas.api_keyy", "site.port"}
    assert "correct them" in do
    assert secret not in ending.err + ending.out


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_setting_that_cannot_be_read_is_not_shown(program: str) -> None:
    secret = secrets.token_hex(9)
    environment = surroundings(WINDLASS_MAAS=f'{{"api_key": {secret}')
    ending = await ended(*PROGRAMS[program], environment=environment)
    assert ending.refusal[0] == "error: the settings are not valid"
    assert secret not in ending.err + ending.out
