"""Schedules as cron means them."""

import pytest
from pydantic import ValidationError

from domain.errors import Invalid
from domain.upgrade_policy import UpgradePolicy, timetable


@pytest.mark.parametrize(
    ("schedule", "crons", "zone"),
    [
        ("0 0 * * *", ("0 0 * * *",), "UTC"),
        ("CRON_TZ=Europe/Berlin 30 3 * * *", ("30 3 * * *",), "Europe/Berlin"),
        ("TZ=Asia/Tokyo  @daily", ("@daily",), "Asia/Tokyo"),
        ("0 0 13 * 5", ("0 0 13 * *", "0 0 * * 5"), "UTC"),
        ("0 0 ? * MON", ("0 0 * * MON",), "UTC"),
        ("@every 1h30m", ("@every 1h30m",), "UTC"),
        ("*/5 1-3,7 29 feb *", ("*/5 1-3,7 29 feb *",), "UTC"),
        ("10/20 0 1 * *", ("10/20 0 1 * *",), "UTC"),
    ],
)
def test_what_cron_takes_means_the_same(schedule: str, crons: tuple[str, ...], zone: str) -> None:
    assert timetable(schedule) == (crons, zone)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("0 0 * * 7", "from 0 to 6"),
        ("0 0 * * * *", "five fields"),
        ("0 0 31 2 *", "never fires"),
        ("60 0 * * *", "from 0 to 59"),
        ("*/0 0 * * *", "from 0 to 59"),
        ("5-1 0 * * *", "from 0 to 59"),
        ("a 0 * * *", "a is no minute"),
        ("1.5 0 * * *", "is no minute"),
        ("0 0 * * noday", "noday is no weekday"),
        ("TZ=Moon/Base 0 0 * * *", "no time zone"),
        ("TZ=../etc 0 0 * * *", "no time zone"),
        ("@sometimes", "none of @daily"),
        ("", "five fields"),
    ],
)
def test_what_would_mean_something_else_is_refused(schedule: str, why: str) -> None:
    with pytest.raises(Invalid) as refusal:
        timetable(schedule)
    assert why in refusal.value.message


def test_a_policy_is_right_in_every_mode() -> None:
    assert UpgradePolicy(time_zone="Asia/Tokyo").timetable.zone == "Asia/Tokyo"
    with pytest.raises(ValidationError, match="never fires"):
        UpgradePolicy.model_validate({"mode": "disabled", "schedule": "0 0 31 2 *"})
