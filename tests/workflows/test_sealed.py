"""What Temporal keeps: nothing that could be read there, nothing that is lost."""

import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from domain.errors import Unavailable
from domain.payload_format import Migration
from store.keys import KEY_BYTES, add
from store.sealing import Seal
from tests.support.load import limit
from workflows.sealed import Sealing, converter

MINUTE = timedelta(minutes=1)


@activity.defn
async def refuse(word: str) -> str:
    raise ApplicationError(f"no, not {word}", word, non_retryable=True)


@activity.defn
async def repeat(word: str) -> str:
    return f"{word}, {word}"


@workflow.defn
class Gossip:
    """Takes a word wherever one can be: arguments, answers, signals, failures and local steps."""

    def __init__(self) -> None:
        self._heard = ""

    @workflow.signal
    def hear(self, word: str) -> None:
        self._heard = word

    @workflow.run
    async def run(self, word: str) -> str:
        await workflow.wait_condition(lambda: bool(self._heard))
        said = await workflow.execute_local_activity(
            repeat, self._heard, start_to_close_timeout=MINUTE
        )
        said = await workflow.execute_activity(repeat, said, start_to_close_timeout=MINUTE)
        if word == "tell":
            return said
        return await workflow.execute_activity(refuse, word, start_to_close_timeout=MINUTE)


@pytest.fixture
def migration() -> Migration:
    return Migration.OFF


@pytest.fixture
async def sealing(
    temporal: WorkflowEnvironment, seal: Seal, queues: str, migration: Migration
) -> AsyncIterator[Client]:
    """A client that seals, with a worker behind it that does so too."""
    address = temporal.client.service_client.config.target_host
    client = await Client.connect(address, data_converter=converter(seal, migration))
    async with Worker(
        client,
        task_queue=queues,
        workflows=[Gossip],
        activities=[refuse, repeat],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield client


async def test_a_history_holds_no_word_of_what_was_said(
    sealing: Client, temporal: WorkflowEnvironment, queues: str
) -> None:
    word = secrets.token_hex(9)
    handle = await sealing.start_workflow(Gossip.run, word, id=f"{queues}1", task_queue=queues)
    await handle.signal(Gossip.hear, word)
    async with limit(30):
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert word in str(failed.value.cause.__cause__)
    history = await temporal.client.get_workflow_handle(handle.id).fetch_history()
    kept = b"".join(event.SerializeToString() for event in history.events)
    assert word.encode() not in kept
    assert b"file-1" in kept, "nothing says which key opens it"


@pytest.mark.parametrize("migration", [Migration.READ_OLD])
async def test_what_was_begun_before_there_was_a_seal_is_finished_during_a_migration(
    sealing: Client, temporal: WorkflowEnvironment, queues: str
) -> None:
    before = temporal.client
    handle = await before.start_workflow(Gossip.run, "tell", id=f"{queues}2", task_queue=queues)
    await handle.signal(Gossip.hear, "hush")
    async with limit(30):
        said = await sealing.get_workflow_handle(handle.id, result_type=str).result()
    assert said == "hush, hush, hush, hush"


HERE = WorkflowSerializationContext(namespace="default", workflow_id="op-1")


def sealed_here(seal: Seal) -> Sealing:
    return Sealing(seal).with_context(HERE)


async def test_equal_payloads_are_not_equal_when_they_are_sealed(seal: Seal) -> None:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'"hush"')
    first, second = sealed = await sealed_here(seal).encode([payload, payload])
    assert first.data != second.data
    assert await sealed_here(seal).decode(sealed) == [payload] * 2


async def test_without_a_place_nothing_is_taken(seal: Seal) -> None:
    """A way through the library that names no place is no way around."""
    for codec in (sealed_here(seal), Sealing(seal)):
        sealed = await codec.encode([Payload(data=b"hush")])
        with pytest.raises(ApplicationError) as refused:
            await Sealing(seal).decode(sealed)
        assert refused.value.details[0]["reason"] == "PAYLOAD_ELSEWHERE"


async def test_whoever_shows_payloads_opens_them_wherever_they_lie(seal: Seal) -> None:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=b'"hush"')
    shown = Sealing(seal, shows=True)
    old = await Sealing(seal, Migration.WRITE_OLD).encode([payload])
    assert (
        await shown.decode([*await sealed_here(seal).encode([payload]), *old, payload])
        == [payload] * 3
    )


@pytest.mark.parametrize("kept", [0, 9, -1])
async def test_what_is_cut_short_does_not_open(seal: Seal, kept: int) -> None:
    [payload] = await sealed_here(seal).encode([Payload(data=b"hush")])
    payload.data = payload.data[:kept]
    with pytest.raises(ApplicationError, match="does not open with key file-1"):
        await sealed_here(seal).decode([payload])


async def test_another_key_opens_nothing_and_is_no_reason_to_try_again(seal: Seal) -> None:
    sealed = await sealed_here(seal).encode([Payload(data=b"hush")])
    with pytest.raises(ApplicationError) as failed:
        await sealed_here(Seal(secrets.token_bytes(KEY_BYTES))).decode(sealed)
    assert failed.value.non_retryable
    assert failed.value.details[0]["reason"] == "WRONG_KEY"


async def test_a_key_that_was_added_a_moment_ago_is_found(tmp_path: Path) -> None:
    file = tmp_path / "seal.key"
    known = Seal.from_file(file)
    sealed = await sealed_here(known).encode([Payload(data=b"hush")])
    late = Seal.from_file(file)
    add(file, "second")
    known.reload()
    known.use("second")
    newer = await sealed_here(known).encode([Payload(data=b"hush")])
    assert await sealed_here(late).decode([*sealed, *newer]) == [Payload(data=b"hush")] * 2


async def test_a_key_that_nobody_has_is_named_and_ends_it(seal: Seal) -> None:
    other = Seal(secrets.token_bytes(KEY_BYTES), "winter")
    sealed = await sealed_here(other).encode([Payload(data=b"hush")])
    with pytest.raises(ApplicationError, match="winter") as failed:
        await sealed_here(seal).decode(sealed)
    assert failed.value.non_retryable
    assert failed.value.details[0]["reason"] == "SEAL_KEY_UNKNOWN"


async def test_what_a_newer_release_wrote_waits_for_one_that_reads_it(seal: Seal) -> None:
    [sealed] = await sealed_here(seal).encode([Payload(data=b"hush")])
    sealed.metadata["windlass-format"] = b"3"
    with pytest.raises(Unavailable, match="newer than this program"):
        await sealed_here(seal).decode([sealed])


async def test_a_run_of_a_schedule_reads_what_the_run_before_answered() -> None:
    seal = Seal(AESGCM.generate_key(256))
    first, second, other = (
        Sealing(seal).with_context(WorkflowSerializationContext("default", id))
        for id in ("rouse-2026-11-20T16:31:55Z", "rouse-2026-11-20T16:32:00Z", "op-1")
    )
    answered = await first.encode([Payload(data=b"null")])
    assert (await second.decode(answered))[0].data == b"null"
    with pytest.raises(ApplicationError, match="was found at op-1"):
        await other.decode(answered)
