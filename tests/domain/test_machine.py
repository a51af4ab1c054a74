from itertools import product

import pytest

from domain.machine import (
    FILLED,
    STUMBLED,
    UNMOVED,
    Machine,
    Role,
    Search,
    Sighting,
    Slot,
    SlotPhase,
    filled,
)
from domain.outline import USUALLY
from domain.releases import Release

SLOT = Slot(
    cluster_uid="3f2b8c1e-0000-4000-8000-000000000000",
    cluster="hello",
    name="pool-bcdfg",
    role=Role.WORKER,
    pool="pool",
    release=Release(version="1.32.1", series="jammy"),
    public_key="ssh-ed25519 AAAA",
)


@pytest.mark.parametrize(
    ("verb", "sighting", "final"), list(product(USUALLY, Sighting, (True, False)))
)
def test_a_step_seen_says_what_the_table_says_and_nothing_else(
    verb: str, sighting: Sighting, final: bool
) -> None:
    after = filled(verb, sighting, final=final)
    if sighting is Sighting.STUMBLED:
        assert after is (STUMBLED.get(verb) if final else None)
    else:
        assert after is FILLED.get((verb, sighting))


def test_an_unknown_step_says_nothing() -> None:
    for sighting in Sighting:
        assert filled("weather.look", sighting, final=True) is None


def test_every_phase_but_the_first_is_reached_by_some_step() -> None:
    unreached = {SlotPhase.PLANNED, SlotPhase.LOST}  # nodes are lost by themselves
    assert set(FILLED.values()) | {SlotPhase.FAILED} == set(SlotPhase) - unreached


def test_only_known_steps_say_anything() -> None:
    assert {verb for verb, _ in (*FILLED, *UNMOVED)} | set(STUMBLED) <= set(USUALLY)


def test_a_machine_carries_the_mark_of_its_slot() -> None:
    assert SLOT.agent_name == "kaas-3f2b8c1e-pool-bcdfg"
    machine = Machine(slot=SLOT, system_id="abc")
    assert {SLOT.named, machine.named, Search(slot=SLOT).named} == {"pool-bcdfg"}
