"""Many tokens that are none of ours, sent to a running server from one address."""

from pathlib import Path

import grpc
import pytest

from api import signed_in
from api.token_bucket import Rate
from tests.api.closed import closed

METHOD = "windlass.v1.Operations/List"
FREE = 5


async def test_a13_made_up_tokens_are_looked_up_so_often_and_known_ones_stay_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_in, "BAD_TOKENS", Rate(per_second=0.001, burst=FREE))
    async with closed(tmp_path) as server:
        good = server.tokens["ada"]
        served = await server.call(METHOD, good)
        assert served == (grpc.StatusCode.OK, "")
        answers = [await server.call(METHOD, f"{number:x>43}") for number in range(FREE + 3)]
        assert {code for code, _ in answers[:FREE]} == {grpc.StatusCode.UNAUTHENTICATED}
        assert answers[FREE:] == [(grpc.StatusCode.RESOURCE_EXHAUSTED, "BAD_TOKENS")] * 3
        assert await server.call(METHOD, good) == served
        no_token, _ = await server.call(METHOD, None)
        assert no_token is grpc.StatusCode.UNAUTHENTICATED
