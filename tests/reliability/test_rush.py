"""A small rush; `make reliability` runs it with five hundred slots and a hundred machines."""

import random
import secrets

from store.engine import Database
from store.secrets import Secrets
from tests.reliability.rush import Losing, rush

MACHINES = 8


async def test_no_machine_is_owned_twice_or_lost_while_answers_are(
    database: Database, vault: Secrets
) -> None:
    number = secrets.randbelow(10**6)
    losing = Losing(0.2, random.Random(number))  # noqa: S311 - not to be unguessable
    async with rush(database, vault, machines=MACHINES, losing=losing) as place:
        found = await place.serve(await place.order(clusters=5, slots_each=MACHINES))
        assert found == [], f"with the choices of {number}"
        assert place.rounds == 5
        assert losing.lost
