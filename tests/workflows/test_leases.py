"""Nodes that fall silent, found out by nothing but the time that passes."""

from time import monotonic

from domain.metadata import RESTART
from tests.agents import BEAT_SECONDS
from tests.workflows.harbour import Listener, asked
from tests.workflows.test_instances import RUNS, Opening, opened

__all__ = ["opened"]

LOST_SECONDS = 3.0
WRITTEN_SECONDS = 1.0
"""How rarely a beat is written down."""


async def test_k23_a_silent_node_is_lost_when_its_lease_is_over(opened: Opening) -> None:
    """What is to run always runs elsewhere, under the same id; the others end."""
    async with opened(suspect_seconds=1.0, lost_seconds=LOST_SECONDS) as place:
        lost = await place.host("a")
        wanted = asked("always"), asked("never")
        always, never = (
            Listener(place.stub.Create(each, metadata=((RESTART, each.id),))) for each in wanted
        )
        await always.until(*RUNS)
        await never.until(*RUNS)
        spare = await place.host("b")
        silent = monotonic()
        await lost.down(killing=True)
        await always.until(*RUNS, *RUNS)
        assert monotonic() - silent > LOST_SECONDS - WRITTEN_SECONDS - 2 * BEAT_SECONDS
        assert spare.running == ["always"]
        assert await never.end() == [*RUNS, "TERMINATED"]
        assert never.heard[-1].statusDescription == "Node is terminated: a is lost"
