"""How long is waited, where it matters beside something else that is waited for."""

from itertools import accumulate

from activities.instances import CLEAN_SECONDS
from clients.node_agent import KEEPALIVE
from settings import Nodes
from workflows.policies import ATTENDING, CLEANING

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


def test_who_has_just_come_back_is_called_again_before_a_copy_is_left_there_for_later() -> None:
    """A connection that was given up is tried anew after two seconds at most; and who takes the
    call and says nothing is not called twice while others wait."""
    policy, within = CLEANING["retry_policy"], CLEANING["schedule_to_close_timeout"]
    assert policy is not None
    assert within is not None
    first = policy.initial_interval.total_seconds()
    calls = [0, first, first + first * policy.backoff_coefficient][: policy.maximum_attempts]
    assert dict(KEEPALIVE)["grpc.max_reconnect_backoff_ms"] / 1000 < calls[-1]
    assert calls[-1] < within.total_seconds() <= CLEAN_SECONDS + first
