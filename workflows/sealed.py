"""What Temporal keeps of our work, sealed: arguments, answers, and what failures say.

    {"encoding": "binary/encrypted",           one payload, and inside it
     "encryption-key-id": "file-1",            the whole payload that it was
     "windlass-format": "2",
     "windlass-bound": {"namespace": …, "workflow": …, "activity": …}}

It opens only as what it says it is bound to, and a worker takes it only where that is: a payload
that was copied to another workflow, step or namespace is refused, and so is one that is not sealed.
Whoever can write to Temporal can therefore ask for nothing that a workflow of ours has not asked
for in that very place. Ids (those of steps name the cluster or node), the names of workflows and
steps, the kinds of failures, queues and times are no payloads, and stay in the clear.

Two formats are older, plain ones and `payload-1`, which says nothing of its place; they are taken
while `Migration` says so."""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import structlog
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    ActivitySerializationContext,
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    EncodingPayloadConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from activities.authenticity import Refused
from activities.errors import told
from domain.errors import DomainError
from domain.payload_format import Migration

ENCODING = b"binary/encrypted"
KEY_NAME = "encryption-key-id"
FORMAT_NAME, FORMAT = "windlass-format", b"2"
BOUND_NAME = "windlass-bound"

PURPOSE = "payload-2"
"""What their keys are made for, and how they are written. A change of it is a new number, and a
new `FORMAT`."""

OLD_PURPOSE = "payload-1"

REFUSED = "windlass/refused"
"""What stands for a payload that is not taken, between here and the step it was meant for. It never
leaves the process: what comes from Temporal is refused unless it is sealed."""

SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
"""What Temporal puts behind the id that a schedule gives its runs."""

SOMETIMES = "activity_id"
"""Known on both sides only of steps that have ids of their own, so it is compared if it is."""

RELOAD_SECONDS = 1.0
"""How soon the keys are looked for again after one was not found."""

FIND_OUT = "nothing of Windlass writes so: find out who writes to Temporal"

log = structlog.get_logger()

Place = Mapping[str, str]


class Seals(Protocol):
    """A key that any number of things may be sealed with."""

    @property
    def name(self) -> str:
        """Which key it is. This much is written in the clear."""

    @property
    def names(self) -> Sequence[str]:
        """All keys that are known."""

    def reload(self) -> None:
        """Look again which keys there are."""

    def close_one(self, purpose: str, secret: bytes, bound: bytes = b"") -> bytes: ...

    def open_one(self, purpose: str, sealed: bytes, name: str, bound: bytes = b"") -> bytes:
        """What was sealed for that purpose, bound to that, with the key of that name. Failed if it
        opens otherwise, or not at all."""


class _RefusalError(Exception):
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class _Keys:
    """The keys of a process, looked for again when one is missing: an operator may have added it a
    moment ago."""

    def __init__(self, seal: Seals) -> None:
        self.seal = seal
        self._looked = -RELOAD_SECONDS

    async def find(self, name: str) -> None:
        if name in self.seal.names:
            return
        trouble = await self._look_again()
        if name not in self.seal.names:
            said = f"a payload is sealed with key {name[:64]!r}, which is not known here"
            raise _RefusalError(
                Refused(
                    f"{said}: {trouble}" if trouble else said,
                    reason="SEAL_KEY_UNKNOWN",
                    do="have this process find that key where the others do, in its key file or by "
                    "its key command, and ask for the change again",
                    passing=bool(trouble),
                )
            )

    async def _look_again(self) -> str:
        """Why the keys cannot be looked for. Empty: they were."""
        if time.monotonic() - self._looked < RELOAD_SECONDS:
            return ""
        try:
            await asyncio.to_thread(self.seal.reload)
        except (DomainError, OSError) as error:
            return str(error)
        self._looked = time.monotonic()
        return ""


class Sealing(PayloadCodec, WithSerializationContext):
    """Seals every payload on its way to Temporal, and opens it on its way back. Without a context,
    which is what `with_context` gives, nothing is taken."""

    def __init__(
        self, seal: Seals, migration: Migration = Migration.OFF, *, shows: bool = False
    ) -> None:
        """`shows`: whatever was ever sealed is opened wherever it lies. For those who look, and
        never for a worker."""
        self._keys = _Keys(seal)
        self._migration = migration
        self._shows = shows
        self._place: Place | None = None
        self._of_step = False

    def with_context(self, context: SerializationContext) -> "Sealing":
        bound = Sealing(self._keys.seal, self._migration, shows=self._shows)
        bound._keys = self._keys
        bound._place = _place(context)
        bound._of_step = isinstance(context, ActivitySerializationContext)
        return bound

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        close = self._closed_as_before if self._migration.writes_old else self._closed
        return [close(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [await self._taken(payload) for payload in payloads]

    def _closed(self, payload: Payload) -> Payload:
        seal, bound = self._keys.seal, _written(self._place or {})
        return Payload(
            metadata={
                "encoding": ENCODING,
                KEY_NAME: seal.name.encode(),
                FORMAT_NAME: FORMAT,
                BOUND_NAME: bound,
            },
            data=seal.close_one(PURPOSE, payload.SerializeToString(), bound),
        )

    def _closed_as_before(self, payload: Payload) -> Payload:
        seal = self._keys.seal
        return Payload(
            metadata={"encoding": ENCODING, KEY_NAME: seal.name.encode()},
            data=seal.close_one(OLD_PURPOSE, payload.SerializeToString()),
        )

    async def _taken(self, payload: Payload) -> Payload:
        """What is inside. A refusal that is final ends a workflow, since Temporal would try for
        ever otherwise; a step is handed it instead of its argument."""
        try:
            return await self._opened(payload)
        except _RefusalError as refusal:
            refused = refusal.refused
            if self._of_step:
                said = json.dumps(asdict(refused)).encode()
                return Payload(metadata={"encoding": REFUSED.encode()}, data=said)
            error = refused.error()
            if self._shows or refused.passing:
                raise error from None
            raise told(error) from None

    async def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return self._old(payload, "is not sealed", "PAYLOAD_NOT_SEALED")
        name = payload.metadata.get(KEY_NAME, b"").decode(errors="replace")
        name = name or self._keys.seal.name
        await self._keys.find(name)
        format = payload.metadata.get(FORMAT_NAME)
        if format is None:
            self._old(payload, "is bound to no place", "PAYLOAD_NOT_BOUND")
            return self._unsealed(OLD_PURPOSE, payload.data, name, b"")
        if format != FORMAT:
            raise _RefusalError(_newer(format))
        bound = payload.metadata.get(BOUND_NAME, b"")
        opened = self._unsealed(PURPOSE, payload.data, name, bound)
        if not self._shows:
            self._belongs(json.loads(bound))
        return opened

    def _old(self, payload: Payload, what: str, reason: str) -> Payload:
        if self._shows or self._migration.reads_old:
            return payload
        do = f"{FIND_OUT}; or it is from before an upgrade: WINDLASS_TEMPORAL__MIGRATION=read-old"
        raise _RefusalError(Refused(f"a payload {what}", reason=reason, do=do))

    def _unsealed(self, purpose: str, data: bytes, name: str, bound: bytes) -> Payload:
        try:
            return Payload.FromString(self._keys.seal.open_one(purpose, data, name, bound))
        except DomainError as error:
            if self._shows:
                raise
            raise _RefusalError(
                Refused(error.message, reason=error.reason or "WRONG_KEY", do=error.do)
            ) from None

    def _same(self, there: str | None, here: str | None) -> bool:
        """Each run of a schedule is given the result of the run before, which has another time in
        its id. What a step is asked for has to be of that very run."""
        if self._of_step or there is None or here is None:
            return there == here
        return SCHEDULED.sub("", there) == SCHEDULED.sub("", here)

    def _belongs(self, there: Place) -> None:
        here = self._place
        if here is not None and all(
            self._same(there.get(name), here.get(name))
            for name in there.keys() | here.keys()
            if name != SOMETIMES or (name in there and name in here)
        ):
            return
        raise _RefusalError(
            Refused(
                f"a payload of {_shown(there)} was found at {_shown(here or {})}",
                reason="PAYLOAD_ELSEWHERE",
                do=FIND_OUT,
            )
        )


def _place(context: SerializationContext) -> Place | None:
    """Where a payload belongs, as both sides know it. What is neither of a workflow nor of a step
    has no place here."""
    if isinstance(context, WorkflowSerializationContext):
        return {"namespace": context.namespace, "workflow": context.workflow_id}
    if isinstance(context, ActivitySerializationContext):
        place = {
            "namespace": context.namespace,
            "workflow": context.workflow_id or "",
            "workflow_type": context.workflow_type or "",
            "activity": context.activity_type or "",
        }
        return {**place, SOMETIMES: context.activity_id} if context.activity_id else place
    return None


def _written(place: Place) -> bytes:
    return json.dumps(place, sort_keys=True, separators=(",", ":")).encode()


def _shown(place: Place) -> str:
    return " of ".join(filter(None, (place.get("activity"), place.get("workflow")))) or "no place"


def _newer(format: bytes) -> Refused:
    said = format.decode(errors="replace")[:16]
    return Refused(
        f"a payload is written in format {said}, which is newer than this program",
        reason="PAYLOAD_TOO_NEW",
        do="bring this worker up to date; others that are may take the work meanwhile",
        passing=True,
    )


class RefusedConverter(EncodingPayloadConverter):
    """Hands a step what was refused, and has a workflow fail for it."""

    @property
    def encoding(self) -> str:
        return REFUSED

    def to_payload(self, value: Any) -> Payload | None:
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        del type_hint
        refused = Refused(**json.loads(payload.data))
        if not _in_workflow():
            return refused
        error = refused.error()
        raise RuntimeError(error.message) if refused.passing else told(error)


def _in_workflow() -> bool:
    """Whether a workflow is being handed something. Answers are turned into values before its own
    loop runs, in a thread without any; arguments of steps in the process's loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return workflow.in_workflow()


class Converter(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(*PydanticPayloadConverter().converters.values(), RefusedConverter())


def warn_of_migration(migration: Migration) -> None:
    if migration.reads_old:
        log.warning(
            "payloads that are not sealed, or bound to no place, are taken",
            migration=migration,
            do="unset WINDLASS_TEMPORAL__MIGRATION once what an older release began has ended: "
            "until then whoever can write to Temporal can have any step done",
        )


def converter(seal: Seals, migration: Migration = Migration.OFF) -> DataConverter:
    """How everything is written that we give to Temporal, with this seal."""
    return replace(
        pydantic_data_converter,
        payload_converter_class=Converter,
        payload_codec=Sealing(seal, migration),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
