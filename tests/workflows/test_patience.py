"""How long is waited, where it matters beside something else that is waited for."""

from itertools import accumulate

from settings import Nodes
from workflows.policies import ATTENDING

RESCUE_SECONDS = 5.0
"""What it takes to place fifty instances of a lost node anew."""

SLACK_SECONDS = 1.0


def test_an_agent_that_is_gone_is_not_asked_again_just_as_its_lease_ends() -> None:
    """Each of its instances would be, in the middle of their rescue."""
    policy = ATTENDING["retry_policy"]
    assert policy is not None
    assert policy.maximum_interval is not None
    longest = policy.maximum_interval.total_seconds()
    first = policy.initial_interval.total_seconds()
    pauses = (min(first * policy.backoff_coefficient**number, longest) for number in range(8))
    ends = Nodes().lost_seconds
    tries = list(accumulate(pauses))
    assert tries[-1] > ends + RESCUE_SECONDS
    assert not [at for at in tries if ends - SLACK_SECONDS < at < ends + RESCUE_SECONDS], tries
