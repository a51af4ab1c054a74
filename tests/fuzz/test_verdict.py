"""What answers come to that say no more than words."""

import httpx2
import pytest

from api.errors import MESSAGE_BYTES, packed
from domain.refusal import Refusal
from tests.fuzz.verdict import over_http


@pytest.mark.parametrize("length", [1, 2 * MESSAGE_BYTES])
def test_a_refusal_is_known_by_its_words_even_if_they_are_cut_short(length: int) -> None:
    refusal = Refusal.CLOUDLET_NOT_READY(key="x" * length, state="OFFLINE")
    told = {"code": 14, "message": packed(refusal).message, "details": []}
    verdict = over_http(httpx2.Response(503, json=told))
    assert verdict.said == "UNAVAILABLE CLOUDLET_NOT_READY"
    assert not verdict.is_bug(bounded=False)


def test_nothing_known_is_a_bug() -> None:
    told = {"code": 14, "message": "the cat sat on the keys", "details": []}
    assert over_http(httpx2.Response(503, json=told)).is_bug(bounded=True)
