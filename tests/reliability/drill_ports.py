"""A thousand apps at once for two hundred ports of one cloudlet."""

import asyncio
import random
from collections import Counter
from time import monotonic

from sqlalchemy import update

from domain import key_text
from domain.errors import DomainError
from domain.operation import Operation, Stage
from domain.override import Override
from domain.tracking import Phase
from domain.usage import FIRST, LAST, Usage
from store.cloudlet_refs import written_ports
from store.edge_rows import CloudletRefsRow
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.reliability.installation import installed
from tests.reliability.outcome import Outcome
from tests.workflows.edge import WEST, Site, site
from tests.workflows.yard import yard

PORTS = 200
REFUSED = "no free external ports"


async def on_sqlite(seed: int) -> Outcome:
    return await drill("ports", seed, postgres=False, apps=400)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("ports-postgresql", seed, postgres=True, apps=1000)


async def drill(name: str, seed: int, *, postgres: bool, apps: int) -> Outcome:
    """Database and Temporal are processes of their own; nothing is killed here."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed(machines=0, draw=draw, postgres=postgres) as there:
        await there.start("temporal")
        database = Database(there.database)
        vault = Secrets(database, Seal.from_file(there.folder / "seal.key"))
        client, prefix = await there.client(), "ports-"
        try:
            async with (
                yard(client, database, vault, prefix),
                site(client, database, prefix) as place,
            ):
                await prepare(place, apps)
                began = monotonic()
                ends = await asyncio.gather(*(ask(place, app) for app in range(apps)))
                seconds = monotonic() - began
                found = await wrong(place, Counter(ends), apps)
        finally:
            await database.close()
        there.keeps_logs = bool(found)
        figures = {
            "seed": seed,
            "seconds": round(seconds, 1),
            "apps": apps,
            "ports": PORTS,
            "ready": ends.count("ready"),
            "refused": ends.count(REFUSED),
        }
        return Outcome(name, figures, found)


async def prepare(place: Site, apps: int) -> None:
    """A cluster, as many apps as there will be callers, and just so many ports left."""
    await place.create_cluster(override=Override.CRM)
    for number in range(apps):
        await place.describe_app(f"app{number}", access_ports="tcp:22")
    taken = written_ports(dict.fromkeys(range(FIRST, LAST + 1 - PORTS), 3))
    async with place.database.session(writes=True) as session:
        its = CloudletRefsRow.cloudlet == key_text.cloudlet_text(WEST)
        await session.execute(update(CloudletRefsRow).where(its).values(ports=taken))


async def ask(place: Site, number: int) -> str:
    """What a caller is told in the end."""
    try:
        ended: Operation = await place.carry_out(await place.create_app(f"app{number}"))
    except DomainError as error:
        return error.message
    if ended.stage is Stage.SUCCEEDED:
        return "ready"
    return ended.failure.message if ended.failure else ended.stage


async def wrong(place: Site, ends: Counter[str], apps: int) -> list[str]:
    """Everything that is not as promised, of what was told and of what stands."""
    found = []
    if ends != {"ready": PORTS, REFUSED: apps - PORTS}:
        found.append(f"callers were told {dict(ends)}")
    instances = await place.apps.page("", apps)
    given = Counter(port.public for each in instances for port in each.instance.ports)
    if sorted(given) != list(range(LAST + 1 - PORTS, LAST + 1)) or given.total() != PORTS:
        found.append(f"{given.total()} ports given, {len(given)} of them different")
    if any(each.phase is not Phase.READY for each in instances):
        found.append("not all that were accepted are READY")
    await place.clear()
    if (await place.usage()).ports.keys() & set(given):
        found.append("what was given back is still taken")
    if await place.phases() or (await place.usage()).vcores != Usage().vcores:
        found.append("something is left")
    return found
