"""What is wished of an operation beside its request."""

import pytest

from domain.errors import Invalid
from domain.metadata import OWNER
from domain.operation import Ask, Kind
from domain.wishes import APPROVE_EACH, DATA, FORCE, STORAGE, WISHES, refuse_wishes


def test_every_wish_says_who_heeds_it() -> None:
    assert WISHES.keys() == {FORCE, APPROVE_EACH, STORAGE, DATA, OWNER}


@pytest.mark.parametrize("kind", Kind)
def test_who_cannot_heed_a_wish_refuses_it(kind: Kind) -> None:
    for name, ask in (
        (FORCE, Ask(method="any", force=True)),
        (APPROVE_EACH, Ask(method="any", approve_each="pool")),
        (STORAGE, Ask(method="any", storage=True)),
        (DATA, Ask(method="any", data="keep")),
    ):
        if kind in WISHES[name]:
            refuse_wishes(kind, ask)
            continue
        with pytest.raises(Invalid) as refused:
            refuse_wishes(kind, ask)
        assert refused.value.reason == "WISH_NOT_HEEDED"
    refuse_wishes(kind, Ask(method="any"))
