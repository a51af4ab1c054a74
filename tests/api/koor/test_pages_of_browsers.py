"""Paths of the koor contract that are no methods and that pages ask without a token."""

import httpx2

from tests.api.closed import Closed


async def test_a_page_has_the_browser_forget_what_it_kept(closed: Closed) -> None:
    async with httpx2.AsyncClient(base_url=closed.http, trust_env=False, timeout=60) as web:
        answer = await web.get("/api/clear-site-data")
        assert answer.status_code == 200
        assert answer.headers["clear-site-data"] == '"cache", "cookies", "storage"'
        ready = await web.get("/readiness")
        assert (ready.status_code, ready.text) == (200, "ready\n")
