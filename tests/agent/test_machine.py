"""What a node says that it has, and uses."""

from pathlib import Path

from agent.machine import Machine
from domain.placement import Amounts


def test_k05_a_node_has_a_core_at_least_and_uses_no_more_than_it_has(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Amounts())
    has = machine.has()
    assert has.cpu >= 1000
    assert has.memory > 0
    for _ in range(2):
        uses = machine.uses()
        assert 0 <= uses.cpu <= has.cpu
        assert 0 < uses.memory <= has.memory
        assert 0 <= uses.disk <= has.disk


def test_what_is_set_is_believed_and_bounds_what_is_used(tmp_path: Path) -> None:
    said = Amounts(cpu=500, memory=1, disk=7)
    machine = Machine(tmp_path, said)
    assert machine.has() == said
    assert machine.uses().memory == 1, "the machine uses more than the node offers"
