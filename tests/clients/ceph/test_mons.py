"""The mons, asked by Ceph's own program."""

import os
from pathlib import Path

import pytest

from clients.ceph import ProgramMons, mons
from domain.errors import DomainError
from domain.storage import Light
from tests.clients.ceph.program import FakeProgram
from tests.domain.ceph import recorded


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProgram:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeProgram(tmp_path)


async def test_they_are_asked_within_bounds(program: FakeProgram) -> None:
    program.says(recorded("status.osd-killed"), 0, 2)
    asked = ProgramMons(program.conf, program.keyring)
    assert (await asked.word()).osds == {}
    told = await asked.word(with_osds=True)
    assert (told.light, told.osds[1], told.osds[2]) == (Light.WARN, (False, True), (True, True))
    assert [line.split("--format json ")[1] for line in program.asked] == [
        "status",
        "status",
        "osd dump",
    ]
    assert all("--connect-timeout 5" in line for line in program.asked)


@pytest.mark.parametrize(
    ("how", "reason"), [("", "CEPH_DOWN"), ("hangs", "CEPH_DOWN"), ("refused", "CEPH_FORBIDDEN")]
)
async def test_silence_is_told_from_a_refusal(
    program: FakeProgram, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setattr(mons, "DEADLINE_SECONDS", 1.0 if how == "hangs" else 9.0)
    program.says(None)
    if how:
        program.set(how)
    with pytest.raises(DomainError) as refused:
        await ProgramMons(program.conf, program.keyring).word()
    assert refused.value.reason == reason


async def test_an_answer_that_is_none_is_strange(program: FakeProgram) -> None:
    program.says({"health": {}})
    with pytest.raises(DomainError) as refused:
        await ProgramMons(program.conf, program.keyring).word()
    assert refused.value.reason == "CEPH_STRANGE"
