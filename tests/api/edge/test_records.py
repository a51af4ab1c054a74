"""What holds of every record: made, shown, changed, deleted, made again."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from settings import Edge as Terms
from tests.api.edge.stubs import Edge, app, cloudlet, developer, flavor, operator, template

NOUNS: dict[str, Callable[..., Any]] = {
    "Developer": developer,
    "Operator": operator,
    "Flavor": flavor,
    "Cluster": template,
    "Cloudlet": cloudlet,
    "App": app,
}

NAMES = ("beta", "alpha", "Gamma", "delta 2")
SORTED = ["Gamma", "alpha", "beta", "delta 2"]
"""By bytes, whatever the database thinks of capitals."""

UPDATED = ("Developer", "Operator", "Cloudlet", "App")


@pytest.fixture(params=NOUNS)
async def noun(request: pytest.FixtureRequest, edge: Edge) -> str:
    if request.param == "App":
        await edge("CreateFlavor", flavor())
    noun: str = request.param
    return noun


def names(noun: str) -> tuple[str, ...]:
    """Clusters have no blanks in their names."""
    return tuple(name.replace(" ", "-") for name in NAMES) if noun == "Cluster" else NAMES


async def test_a_record_is_made_shown_deleted_and_made_again(noun: str, edge: Edge) -> None:
    make = NOUNS[noun]
    for name in names(noun):
        await edge(f"Create{noun}", make(name))
    shown = [name.replace(" ", "-") if noun == "Cluster" else name for name in SORTED]
    assert await edge.names(noun, type(make())()) == shown

    refusal = await edge.refused(f"Create{noun}", make("alpha"))
    assert (refusal.code, refusal.message) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "Key already exists",
    )

    await edge(f"Delete{noun}", make("alpha"))
    assert await edge.names(noun, type(make())()) == [name for name in shown if name != "alpha"]
    refusal = await edge.refused(f"Delete{noun}", make("alpha"))
    assert (refusal.code, refusal.message) == (grpc.StatusCode.NOT_FOUND, "Key not found")
    if noun in UPDATED:
        refusal = await edge.refused(f"Update{noun}", make("alpha"))
        assert (refusal.code, refusal.message) == (grpc.StatusCode.NOT_FOUND, "Key not found")

    await edge(f"Create{noun}", make("alpha"))
    assert await edge.names(noun, type(make())()) == shown


async def test_an_empty_object_is_refused(noun: str, edge: Edge) -> None:
    refusal = await edge.refused(f"Create{noun}", type(NOUNS[noun]())())
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert await edge(f"Show{noun}", type(NOUNS[noun]())()) == []


async def test_a_mask_is_not_kept(noun: str, edge: Edge) -> None:
    await edge(f"Create{noun}", NOUNS[noun]("alpha", fields=["2", "nonsense"]))
    [kept] = await edge(f"Show{noun}", type(NOUNS[noun]())())
    assert not kept.fields


async def test_a_create_that_is_repeated_under_its_id_is_one_create(noun: str, edge: Edge) -> None:
    again = {"metadata": (("x-request-id", "create-1"),)}
    await edge(f"Create{noun}", NOUNS[noun]("alpha"), **again)
    await edge(f"Create{noun}", NOUNS[noun]("alpha"), **again)
    refusal = await edge.refused(f"Create{noun}", NOUNS[noun]("beta"), **again)
    assert refusal.reason == "REQUEST_ID_REUSED"
    gone = {"metadata": (("x-request-id", "delete-1"),)}
    await edge(f"Delete{noun}", NOUNS[noun]("alpha"), **gone)
    await edge(f"Delete{noun}", NOUNS[noun]("alpha"), **gone)
    assert await edge.names(noun, type(NOUNS[noun]())()) == []


@pytest.mark.parametrize("legacy", [False, True], ids=["proper", "legacy"])
class TestCloudlets:
    @pytest.fixture
    def terms(self, legacy: bool) -> Terms:
        return Terms(legacy_codes=legacy)

    async def test_are_described_without_a_word(self, edge: Edge) -> None:
        """Their calls are streams, and end well without a message."""
        for verb in ("Create", "Update", "Delete"):
            assert await edge(f"{verb}Cloudlet", cloudlet(access_uri="u", fields=["4"])) == []
        assert await edge("ShowCloudlet", cloudlet()) == []
