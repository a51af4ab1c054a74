"""Which free machine a slot should try for first."""

import hashlib
from collections.abc import Iterable, Mapping

from domain.frozen import Frozen
from domain.machine import Search


class Candidate(Frozen):
    """A free machine, as far as choosing goes."""

    system_id: str
    zone: str
    cost: float
    """How much it would be a waste to take it for little."""


def in_order(
    search: Search, free: Iterable[Candidate], neighbours: Mapping[str, int]
) -> list[Candidate]:
    """The candidates, best first: where the fewest `neighbours` are (machines of the same pool,
    counted by zone), then the cheapest. Among equals every slot has an order of its own, so that
    slots that choose at the same time seldom want the same machine."""

    def rank(candidate: Candidate) -> tuple[int, float, bytes]:
        mixed = f"{search.slot.agent_name} {candidate.system_id}".encode()
        lot = hashlib.sha256(mixed).digest()
        return neighbours.get(candidate.zone, 0), candidate.cost, lot

    return sorted((one for one in free if one.system_id not in search.avoid), key=rank)
