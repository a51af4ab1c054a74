"""The books of those who look after clusters."""

from temporalio import activity

from domain.health import Tolerance
from domain.seen import Led, Tour
from store.watches import Watches


class Tending:
    def __init__(self, watches: Watches, tolerance: Tolerance) -> None:
        self._watches = watches
        self._tolerance = tolerance

    @activity.defn(name="tending.record")
    async def record(self, tour: Tour) -> bool:
        """Write down what a tour found; whether there still is a cluster to look after."""
        return await self._watches.record(tour, self._tolerance)

    @activity.defn(name="tending.led")
    async def led(self, led: Led) -> None:
        """Write down where a cluster's endpoint leads to now."""
        await self._watches.led(led)
