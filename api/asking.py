"""Who asks, through which method and under which key, and what they are told beside the reply.

The door notes the call that runs where its handler finds it: grpc.aio tells handlers neither the
method's name nor the id that the door gave the call."""

import asyncio
import hashlib
import random
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import grpc.aio
from google.protobuf.message import Message

from domain.access import NO_ONE, Principal, Role, Session
from domain.errors import DomainError, Forbidden, Invalid
from domain.metadata import OWNER
from domain.operation import Ask, OperationId
from domain.ownership import OWNER_RULE, is_owner
from domain.wishes import APPROVE_EACH, DATA, DELETE, FORCE, KEEP, STOPS, STORAGE, WISHES

if TYPE_CHECKING:
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
else:
    Context = grpc.aio.ServicerContext

REQUEST_ID = "x-request-id"
IDEMPOTENCY_KEY = "idempotency-key"
OPERATION = "windlass-operation"

HEARD = frozenset({REQUEST_ID, IDEMPOTENCY_KEY, *WISHES})
"""All metadata that we read."""
WHY = "windlass-why"

KEY_LENGTH = 128

NOBODY = Session(principal=NO_ONE)

Wish = TypeVar("Wish", bool, str)


class Call(NamedTuple):
    """The call that runs."""

    method: str
    """Its full name, such as `cnct.kaas.api.Cluster/CreateCluster`."""
    request_id: str
    """The caller's, or one that we drew."""
    key: str
    """What the caller will repeat the request under. Empty: there is no such promise."""
    wishes: tuple[tuple[str, str | bytes], ...] = ()
    """What is wished beside the request."""
    session: Session = NOBODY
    """Who asks."""


class Notes:
    """What comes to be known of a call while it runs."""

    def __init__(self) -> None:
        self.operation = ""
        self.began: asyncio.Task[int] | None = None
        """The writing of the line that says that it began, by its number."""
        self.request: Message | None = None
        self.is_let_in = False
        """Whether it is known who asks, be it to refuse them."""
        self.is_told = False
        """Whether what becomes of it is written down, though nobody has to sign in for it."""
        self.discloses = False
        """Whether the answer holds a secret, so that it is written down that it was given."""
        self.user = ""
        """Whose it turned out to be. Empty: whoever asked."""
        self.subject = ""
        """What it turned out to be about. Empty: what the request names."""
        self.ended: DomainError | None = None
        """Why it was cut short."""


_RUNNING: ContextVar[Call] = ContextVar("call")
_NOTES: ContextVar[Notes] = ContextVar("notes")


def arrive(method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Call:
    """Note the call that runs from here on.

    A request id is also the key of the request. Proxies like to add request ids of their own, so
    an `idempotency-key`, which only a caller sets, comes first."""
    given = {name: value for name, value in metadata if name in HEARD}
    asked = given.get(REQUEST_ID)
    call = Call(method, str(asked) if _is_key(asked) else _drawn(), "")
    _RUNNING.set(call)
    _NOTES.set(Notes())
    for name in (REQUEST_ID, IDEMPOTENCY_KEY):
        value = given.get(name)
        if value is not None and not _is_key(value):
            raise Invalid(
                f"{name} must be 1 to {KEY_LENGTH} printable ASCII characters",
                reason="INVALID_REQUEST_ID",
                do="use a UUID",
            )
    if given:
        key = given.get(IDEMPOTENCY_KEY, asked)
        wishes = tuple((name, given[name]) for name in WISHES if name in given)
        call = call._replace(key=str(key) if key else "", wishes=wishes)
        _RUNNING.set(call)
    return call


def running() -> Call:
    """The call that runs."""
    return _RUNNING.get()


def entered(session: Session) -> None:
    """Note who asks, now that it is known."""
    _NOTES.get().is_let_in = True
    _RUNNING.set(_RUNNING.get()._replace(session=session))


def notes() -> Notes:
    """What is known by now of the call that runs."""
    return _NOTES.get()


def principal() -> Principal:
    """Who asks."""
    return _RUNNING.get().session.principal


def asked(request: Message) -> Ask:
    """Who asks for a change with `request`.

    The digest is of the request written anew, so the order of its fields does not matter, and of
    what is wished beside it."""
    call = _RUNNING.get()
    digest = hashlib.sha256(request.SerializeToString(deterministic=True))
    wishes = dict(call.wishes)
    if wishes:
        digest.update(repr(call.wishes).encode())
    who = call.session.principal
    force = _wished(FORCE, wishes, {"true": True, "false": False}, without=False)
    if force and who.role is not Role.ADMIN:
        raise Forbidden(
            f"{who.name}, who is {who.role}, may not wish for {FORCE}: machines may be left behind",
            subject=who.name,
            do=f"ask an administrator, or leave {FORCE} out",
        )
    data, name = _data(wishes)
    return Ask(
        tenant=who.tenant,
        caller=who.name,
        method=call.method,
        key=call.key,
        digest=digest.hexdigest(),
        force=force,
        approve_each=_wished(APPROVE_EACH, wishes, {stop: stop for stop in STOPS}, without=""),
        storage=_wished(STORAGE, wishes, {"true": True, "false": False}, without=False),
        data=data,
        data_of=name,
        owner=_owner(str(wishes.get(OWNER, ""))),
    )


def _owner(text: str) -> str:
    """What something is made for, if that can be kept."""
    if not is_owner(text):
        raise Invalid(
            f"{OWNER} has to be {OWNER_RULE}",
            subject=OWNER,
            reason="OWNER_INVALID",
            do="shorten it",
        )
    return text


def _data(wishes: Mapping[str, str | bytes]) -> tuple[str, str]:
    """What is to become of data, and the name that was typed for it to be deleted."""
    word, _, name = str(wishes.get(DATA, "")).partition(" ")
    if word == DELETE:
        return word, name.strip()
    return _wished(DATA, wishes, {KEEP: KEEP, f"{DELETE} NAME": DELETE}, without=""), ""


def _wished(
    name: str,
    wishes: Mapping[str, str | bytes],
    words: Mapping[str, Wish],
    *,
    without: Wish,
) -> Wish:
    """What was wished under this name, in one of the words there are for it."""
    if name not in wishes:
        return without
    said = str(wishes[name])
    if said not in words:
        raise Invalid(
            f"{name} is {said[:64]!r}, and has to be one of: {', '.join(sorted(words))}",
            subject=name,
            reason="WISH_NOT_UNDERSTOOD",
            do=f"leave {name} out, or say one of these",
        )
    return words[said]


def refer(context: Context, operation: OperationId) -> None:
    """Tell the caller, beside the reply, which operation its request led to."""
    _NOTES.get().operation = operation
    context.set_trailing_metadata(((REQUEST_ID, _RUNNING.get().request_id), (OPERATION, operation)))


def explain(context: Context, why: str) -> None:
    """Tell the caller, beside the reply, why there is no more in it."""
    told = why.encode("ascii", "replace").decode()
    context.set_trailing_metadata(((REQUEST_ID, _RUNNING.get().request_id), (WHY, told)))


def _drawn() -> str:
    """An id that nobody has to be kept from guessing, so it may be a quick one."""
    return f"{random.getrandbits(64):016x}"


def _is_key(value: str | bytes | None) -> bool:
    return (
        isinstance(value, str)
        and 1 <= len(value) <= KEY_LENGTH
        and value.isascii()
        and value.isprintable()
    )
