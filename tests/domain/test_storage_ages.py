"""Figures that the present source cannot tell are unknown, each with its own age."""

from datetime import timedelta

import pytest

from domain import radar as radars
from domain import storage_resources
from domain.reliability import parts
from domain.storage import Figure, Light, Mon, Mons, Observation, Source
from domain.storage_look import Look, Seen, unknown
from domain.storage_mons import MANAGERS_OWN, Word, beside, instead, word
from domain.storage_resources import Standing
from tests.domain.ceph import AT, recorded, seen

LATER = AT + timedelta(seconds=5)
DUMP = {
    "osds": [
        {"osd": 0, "up": 1, "in": 1},
        {"osd": 1, "up": 0, "in": 1},
        {"osd": 2, "up": 0, "in": 1},
    ],
    "last_up_change": "2026-11-19T11:59:58.697612+0000",
    "last_in_change": "2026-11-19T11:00:00.000000+0000",
    "pools": [{"pool": 2, "flags_names": "hashpspool,full,full_quota"}],
}


def alone(last: Observation | None = None) -> Observation:
    """The manager is dead, and two of three OSDs with it."""
    return instead(last or seen(), word(recorded("status.mgr-killed"), DUMP), LATER)


def standings(it: Observation) -> dict[str, Standing]:
    made = [
        *storage_resources.resources("ceph", it, it.light),
        *storage_resources.daemons("ceph", it, it.light),
    ]
    return {f"{each.kind}/{each.name}": each.standing for each in made}


def test_nothing_is_unknown_while_the_manager_answers() -> None:
    assert seen().ages == {}
    assert seen().knows(*Figure)
    assert seen().seen_at(Figure.CAPACITY) == AT


def test_what_only_a_manager_tells_is_unknown_without_one() -> None:
    it = alone()
    assert it.at == LATER
    assert it.source is Source.MONS
    assert set(it.ages) == set(MANAGERS_OWN)
    assert set(it.ages.values()) == {AT}
    assert it.seen_at(Figure.OSDS) == LATER
    assert it.osds.up_changed is not None
    assert it.osds.up_changed.second == 58


def test_ages_stay_those_of_the_manager_s_last_word_however_often_the_mons_are_asked() -> None:
    twice = instead(alone(), word(recorded("status.mgr-killed"), DUMP), LATER + timedelta(hours=1))
    assert set(twice.ages.values()) == {AT}
    assert twice.seen_at(Figure.OSDS) == LATER + timedelta(hours=1)


def test_osds_are_unknown_where_the_mons_were_not_asked_for_them() -> None:
    it = instead(seen(), word(recorded("status.mgr-killed")), LATER)
    assert not it.knows(Figure.OSDS)
    assert standings(it)["DaemonGroup/osd"] is Standing.UNKNOWN


def test_pools_are_not_ready_because_they_were_once() -> None:
    found = standings(alone())
    pools = {name: standing for name, standing in found.items() if name.startswith("CephBlock")}
    assert set(pools.values()) == {Standing.UNKNOWN, Standing.NOT_READY}
    assert found["DaemonGroup/osd"] is Standing.NOT_READY
    assert {found[name] for name in found if "mds" in name or "rgw" in name} == {Standing.UNKNOWN}


@pytest.mark.parametrize("case", ["mgr-just-killed", "mgr-killed"])
def test_a_manager_that_is_gone_says_so_at_once(case: str) -> None:
    """The mons miss it half a minute later."""
    it = instead(seen(), word(recorded(f"status.{case}"), DUMP), LATER)
    assert standings(it)["DaemonGroup/mgr"] is Standing.NOT_READY


def test_a_look_that_failed_is_a_manager_that_is_gone_without_mons_to_ask_too() -> None:
    it = Seen(cluster="ceph", look=Look(observation=seen()), every=timedelta(seconds=5))
    assert standings(it.shown.observation)["DaemonGroup/mgr"] is Standing.READY
    failed = it.model_copy(update={"trouble": "no answer"})
    assert standings(failed.shown.observation)["DaemonGroup/mgr"] is Standing.NOT_READY
    assert failed.light(AT) is seen().light


def test_the_radar_has_no_figure_for_what_is_unknown() -> None:
    it = alone()
    figures = radars.radar(
        it, it.light, [Standing.UNKNOWN], parts(it), unknown=unknown(Look(observation=it))
    )
    assert (figures.nodes, figures.capacity, figures.reliability) == (None, None, None)
    assert figures.health == 50


def test_a_pool_that_takes_no_more_is_not_ready() -> None:
    full = seen().pools[0].model_copy(update={"full": True})
    it = seen().model_copy(update={"pools": (full, *seen().pools[1:])})
    assert standings(it)[f"CephBlockPool/{full.name}"] is Standing.NOT_READY
    [scored] = [
        each for each in storage_resources.resources("ceph", it, Light.OK) if each.name == full.name
    ]
    assert scored.standing is Standing.NOT_READY


def test_a_frozen_mon_is_out_of_the_quorum_though_the_manager_shows_it() -> None:
    three = tuple(Mon(name=name, in_quorum=True) for name in "abc")
    it = seen().model_copy(update={"mons": Mons(all=three)})
    said = beside(it, Word(light=Light.WARN, quorum=("a", "b")))
    assert said.mons.quorum == ("a", "b")
    assert standings(said)["DaemonGroup/mon"] is Standing.NOT_READY


def test_an_observation_is_kept_with_its_ages() -> None:
    it = alone()
    assert Observation.model_validate_json(it.model_dump_json()) == it
