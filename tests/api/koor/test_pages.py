"""What pages ask for before anybody has signed in."""

import httpx2
import pytest

from tests.api.closed import Closed


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/api/ping", 200),
        ("POST", "/api/config", 200),
        ("POST", "/api/ping", 405),
        ("GET", "/api/config", 405),
        ("POST", "/api/config/", 404),
    ],
)
async def test_pages_of_koor_find_what_they_ask_for_first(
    closed: Closed, verb: str, path: str, status: int
) -> None:
    async with httpx2.AsyncClient(base_url=closed.http, trust_env=False) as http:
        answer = await http.request(verb, path)
    assert answer.status_code == status
    if answer.status_code == 200:
        told = answer.json()
        ping = {"message": "Pong"}
        assert told == ping or told["login"] == {"providers": []}
        assert path == "/api/ping" or isinstance(told["version"], str)
