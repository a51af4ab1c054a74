"""How many changes are accepted, each durable and under a request id of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.bench.callers import Load, load, write
from tests.bench.creation import names, ordered
from tests.bench.figures import Figure, Target, figure
from tests.bench.place import place
from tests.reliability.postgres import Postgres

METHOD = "cnct.kaas.api.Cluster/CreateCluster"
MANY = 16
CREATES = 320
ALONE = 160
LEAST_RATE = Target(least=100)
MOST_MS = Target(most=50)
MACHINES = 24


async def measure(repeats: int) -> list[Figure]:
    """A fresh place for every run. Acceptance alone first, then with a worker who begins the work
    at once and wants the same two processors."""
    figures: list[Figure] = []
    async with postgres() as server:
        for kind, worker in (("SQLite", False), ("SQLite", True), ("PostgreSQL", False)):
            runs = [
                await _run(await fresh(server) if kind != "SQLite" else "", worker=worker)
                for _ in range(repeats)
            ]
            where = f"{kind}, {'a worker beside' if worker else 'alone'}"
            target = (None, None) if worker else (LEAST_RATE, MOST_MS)
            figures += [
                figure(
                    f"accepted, {MANY} callers, {where}",
                    "/s",
                    *(many.rate for many, _ in runs),
                    target=target[0],
                ),
                figure(
                    f"p99, 1 caller, {where}",
                    "ms",
                    *(alone.worst_ms for _, alone in runs),
                    target=target[1],
                ),
                figure(f"p50, 1 caller, {where}", "ms", *(alone.middle_ms for _, alone in runs)),
                figure(f"p99, {MANY} callers, {where}", "ms", *(many.worst_ms for many, _ in runs)),
                figure(
                    f"refused, {where}", "", *(many.refused + alone.refused for many, alone in runs)
                ),
            ]
    return figures


async def _run(database: str, *, worker: bool) -> tuple[Load, Load]:
    machines = MACHINES if worker else 0
    async with place(machines=machines, database=database, worker=worker) as site:
        alone = await load(site, site.grpc, METHOD, _orders(site.state / "few", ALONE), callers=1)
        many = await load(
            site, site.grpc, METHOD, _orders(site.state / "many", CREATES), callers=MANY
        )
    return many, alone


def _orders(file: Path, count: int) -> Path:
    return write(file, [ordered(next(names)).SerializeToString() for _ in range(count)])


@asynccontextmanager
async def postgres() -> AsyncIterator[str]:
    """A server, by the URL of its first database."""
    postgres = Postgres()
    with TemporaryDirectory(prefix="windlass-bench-") as folder:
        program = postgres.program(Path(folder) / "postgres.log")
        await program.start()
        try:
            yield postgres.url
        finally:
            await program.stop()
            postgres.remove()


async def fresh(server: str, model: str = "template1") -> str:
    """The URL of a database that nobody has used: an empty one, or a copy of that with this URL."""
    name, like = f"bench_{uuid4().hex[:8]}", make_url(model).database if "/" in model else model
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {like}"))
    await engine.dispose()
    return make_url(server).set(database=name).render_as_string(hide_password=False)
