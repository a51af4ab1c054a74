"""What an agent's port is encrypted with, by what is set."""

from pathlib import Path

import pytest

from agent.__main__ import encryption
from domain.errors import Invalid
from settings import Agent
from tests.agent.certificates import made

FAR = "192.0.2.7:50053"


def test_an_agent_that_others_reach_is_encrypted_unless_somebody_says_otherwise(
    tmp_path: Path,
) -> None:
    files = made(tmp_path / "n1", "n1")
    both = Agent(listen=FAR, certificate_file=files.certificate, key_file=files.key)
    assert encryption(both) == files
    for meant in (
        Agent(),
        Agent(listen="[::1]:50053"),
        Agent(listen=FAR, plaintext=True),
        Agent(listen=FAR, serves_anybody=True),  # the original scheduler's only language
    ):
        assert encryption(meant) is None
    for wrong in (
        Agent(listen=FAR),
        Agent(listen="0.0.0.0:50053"),
        Agent(listen=FAR, certificate_file=files.certificate),
        Agent(key_file=files.key),
    ):
        with pytest.raises(Invalid):
            encryption(wrong)
