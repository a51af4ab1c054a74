"""What one CreateAppInst costs where a thousand instances are there already, and what where there
are ten and a hundred times as many."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc.aio

from tests.bench.accepting import fresh, postgres
from tests.bench.appinsts import Ours, Run, together
from tests.bench.edge import edge_of, instances
from tests.bench.figures import Figure, Target, figure, ratio
from tests.bench.place import Place, place
from tests.bench.stocked import stock

SIZES = (1_000, 10_000, 100_000)
PLACES = 100
CALLERS = 8
EACH = 200
WARMING = 1
MOST_TIMES = Target(most=1.15)


@dataclass
class Store:
    """A place with so many instances, and who makes more of them."""

    site: Place
    ours: Ours
    runs: list[Run]

    async def go_on(self) -> None:
        self.runs.append(await together(self.site, self.ours.make, each=EACH, callers=CALLERS))

    @property
    def seconds(self) -> list[float]:
        """Of each run, for one instance."""
        return [run.seconds / EACH for run in self.runs]

    @property
    def cpu(self) -> list[float]:
        return [run.cpu_ms for run in self.runs]


async def measure(repeats: int) -> list[Figure]:
    """The three stand side by side, and some more are made in each by turns."""
    figures = []
    async with postgres() as server:
        for kind in ("SQLite", "PostgreSQL"):
            async with AsyncExitStack() as stack:
                stores = []
                for size in SIZES:
                    database = "" if kind == "SQLite" else await fresh(server)
                    stores.append(await _stored(stack, size, database, repeats))
                for _ in range(repeats + WARMING):
                    for store in stores:
                        await store.go_on()
            for store in stores:
                del store.runs[:WARMING]
            figures += _told(kind, stores)
    return figures


async def _stored(stack: AsyncExitStack, size: int, database: str, repeats: int) -> Store:
    site = await stack.enter_async_context(place(database=database))
    apps = (size + EACH * (repeats + WARMING)) // PLACES
    await stack.enter_async_context(edge_of(site.grpc, places=PLACES, apps=apps))
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(site.grpc))
    await Ours(channel, instances(PLACES)).make()
    await stock(site.settings.database, size, places=PLACES)
    return Store(site, Ours(channel, instances(PLACES, first=size)), [])


def _told(kind: str, stores: list[Store]) -> list[Figure]:
    least, *more = stores
    figures = []
    for size, store in zip(SIZES[1:], more, strict=True):
        among = f"one among {size:,} / one among {SIZES[0]:,}, {kind}"
        figures += [
            ratio(f"{among}: time", store.seconds, least.seconds, MOST_TIMES),
            ratio(f"{among}: processor", store.cpu, least.cpu, MOST_TIMES),
        ]
    for size, store in zip(SIZES, stores, strict=True):
        among = f"CreateAppInst among {size:,}, {kind}"
        figures += [
            figure(f"{among}: time", "ms", *(1000 * each for each in store.seconds)),
            figure(f"{among}: processor", "ms", *store.cpu),
        ]
    return figures
