"""Some of what `make fuzz` throws."""

import httpx2
import pytest

from tests.api.closed import closed
from tests.fuzz.hostile import Hostile

CASES = 450


async def test_hostile_callers_find_no_bug_and_no_secret_gets_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with (
        closed(tmp_path_factory.mktemp("closed")) as server,
        httpx2.AsyncClient(base_url=server.http, trust_env=False, timeout=30) as http,
    ):
        hostile = Hostile(server, http, seed=1)
        await hostile.attack(CASES)
        assert sum(hostile.answers.values()) == CASES
        assert hostile.bugs == []
        assert (await http.get("/livez")).status_code == 200
