"""Small sums of the simulated API: ages as kubectl says them, and selectors of labels."""

from typing import Any

import pytest

from sim.kubernetes.nodes import moment
from sim.kubernetes.selectors import matches
from sim.kubernetes.tables import since

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 5, "9m5s"),
        (10 * MINUTE + 5, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (400 * DAY, "400d"),
    ],
)
def test_ages_are_said_as_short_as_can_be(seconds: int, said: str) -> None:
    now = 1_800_000_000
    assert since(moment(now - seconds), now) == said


def test_nobody_knows_how_old_what_has_no_birthday_is() -> None:
    assert since(None, 0) == "<unknown>"


@pytest.mark.parametrize(
    ("selector", "meets"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "Exists"}],
            },
            False,
        ),
    ],
)
def test_a_label_selector_wants_all_that_it_says(
    selector: dict[str, Any] | None, meets: bool
) -> None:
    assert matches(selector, {"app": "web"}) is meets
