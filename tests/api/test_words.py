"""The words for a node's state: the command keeps its own, and they are those of the API."""

from api.kaas import states
from cli import following


def test_the_command_says_of_nodes_what_the_api_says() -> None:
    said = {str(phase): word for phase, word in states.NODE_STATUS.items()}
    assert said == following.STATUS
    assert states.CLOSED == following.CLOSED
