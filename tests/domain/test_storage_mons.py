"""The mons' own word, beside the manager's and instead of it, as it was recorded."""

from datetime import timedelta

import pytest

from domain.storage import Light, Source
from domain.storage_mons import Word, beside, instead, word
from tests.domain.ceph import AT, recorded, seen

LATER = AT + timedelta(seconds=5)


def said(case: str) -> Word:
    return word(recorded(f"status.{case}"))


def test_what_the_mons_say_is_read() -> None:
    dead = said("mgr-killed")
    assert (dead.light, dead.quorum, dead.is_managed) == (Light.WARN, ("a",), False)
    assert [check.code for check in dead.checks] == ["MGR_DOWN"]
    assert said("mgr-just-killed").light is Light.OK
    dump = {"osds": [{"osd": 0, "up": 1, "in": 1}, {"osd": 1, "up": 0, "in": 1}]}
    assert word(recorded("status.osd-killed"), dump).osds == {0: (True, True), 1: (False, True)}


@pytest.mark.parametrize("wrong", [{}, {"health": None}, {"health": {"status": "HEALTH_FINE"}}])
def test_what_is_none_is_refused_in_words_that_clients_know(wrong: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        word(wrong)


@pytest.mark.parametrize(
    ("manager", "mons", "light", "codes"),
    [
        ("ok", "mgr-just-killed", Light.OK, []),
        ("ok", "mgr-killed", Light.WARN, ["MGR_DOWN"]),
        ("ok", "osd-killed", Light.WARN, ["OSD_DOWN"]),
        ("fs-failed", "osd-killed", Light.ERR, ["MDS_ALL_DOWN", "FS_DEGRADED", "OSD_DOWN"]),
    ],
)
def test_of_two_lights_the_worse_is_shown_with_the_checks_of_both(
    manager: str, mons: str, light: Light, codes: list[str]
) -> None:
    both = beside(seen(manager), said(mons))
    assert (both.light, [check.code for check in both.checks]) == (light, codes)
    assert both.source is Source.MANAGER


def test_without_the_manager_nothing_is_green() -> None:
    alone = instead(seen(), said("mgr-just-killed"), LATER)
    assert (alone.light, [check.code for check in alone.checks]) == (Light.WARN, ["MGR_SILENT"])
    assert (alone.at, alone.source, alone.live) == (LATER, Source.MONS, True)
    assert alone.managers == seen().managers, "they have not missed it yet"
    assert alone.objects == seen().objects, "what only it knows is what it said last"


def test_once_the_mons_say_so_it_is_their_word() -> None:
    dump = {"osds": [{"osd": 1, "up": 0, "in": 1}]}
    alone = instead(seen(), word(recorded("status.mgr-killed"), dump), LATER)
    assert [check.code for check in alone.checks] == ["MGR_DOWN"]
    assert alone.managers == ()
    assert [osd.up for osd in alone.osds.all] == [True, False, True]
    assert alone.mons.quorum == ("a",)
    lost = instead(seen(), said("mgr-killed").model_copy(update={"quorum": ()}), LATER)
    assert lost.mons.quorum == ()
