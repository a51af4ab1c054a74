"""Who is let in: the one place that every call of every contract passes, by whatever door.

Refusing comes before anything is looked up that the call is about, so nobody learns by it what
exists. Who somebody is `api/signed_in.py` knows; nothing here needs a store, so that programs which
have none can be servers too."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from api.access import OPEN
from api.origin import Called
from domain.access import ANYONE, Permission, Role, Session
from domain.errors import Forbidden, Unauthenticated

AUTHORIZATION = "authorization"
TOKEN_BYTES = 4096


class Heard(Protocol):
    """What is known of a call before it is let in."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    def auth_context(self) -> Any: ...
    def peer(self) -> str: ...


class Gate(Protocol):
    """Lets calls in, or raises why not."""

    def permission(self, method: str) -> Permission: ...

    async def recognised(self, asked: Permission, line: Heard) -> Session:
        """Who calls. Unauthenticated if that has to be known and is not."""

    async def ended(self, session: Session) -> None:
        """Return when a session is over that had begun, and not before."""


class Trail(Protocol):
    """Writes down which calls change something, and what became of them."""

    async def begin(self, asked: Permission, line: Called) -> None: ...

    async def disclose(self, asked: Permission, line: Called) -> None: ...

    async def note(
        self, asked: Permission, line: Called, code: grpc.StatusCode, reason: str = ""
    ) -> None: ...


class NoGate:
    """For servers of which everybody may use everything."""

    _everybody = Session(principal=ANYONE)

    def permission(self, method: str) -> Permission:
        return OPEN

    async def recognised(self, asked: Permission, line: Heard) -> Session:
        return self._everybody

    async def ended(self, session: Session) -> None:
        await asyncio.Event().wait()


def presented(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token that came with a call, or nothing. The scheme may be left out, as the first clients
    do. Unauthenticated if it cannot be one."""
    given = [value for name, value in metadata if name == AUTHORIZATION]
    if not given:
        return ""
    value = given[0]
    if len(given) > 1 or not isinstance(value, str) or len(value) > TOKEN_BYTES:
        raise invalid()
    scheme, _, rest = value.strip().partition(" ")
    token = rest.strip() if rest and scheme.lower() == "bearer" else value.strip()
    if not token or " " in token:
        raise invalid()
    return token


def permitted(asked: Permission, session: Session) -> None:
    """Forbidden, if whoever it is may not do that."""
    who = session.principal
    if asked.roles is not None and who.role not in asked.roles:
        raise Forbidden(
            f"{who.name}, who is {who.role}, may not do this",
            subject=who.name,
            do="ask an administrator, or sign in as somebody else",
        )


def owned(asked: Permission, session: Session, request: Message) -> None:
    """Hold a developer to what is theirs: a filter is narrowed to it, and whatever else names
    another's is Forbidden."""
    if session.principal.role is not Role.DEVELOPER or not asked.owners:
        return
    for path in asked.owners:
        *above, name = path.split(".")
        holder: Any = request
        for each in above:
            holder = getattr(holder, each)
        owner = getattr(holder, name)
        if asked.narrows and not owner:
            setattr(holder, name, session.principal.developer)
        elif owner != session.principal.developer and (owner or path == asked.owners[0]):
            raise Forbidden(
                f"{session.principal.name} has what belongs to developer "
                f"{session.principal.developer}, and nothing else",
                subject=session.principal.name,
                do=f"name {session.principal.developer} as the developer",
            )


def over(session: Session) -> Unauthenticated:
    """What is said when a session is over that a stream began with."""
    if session.digest:
        return invalid()
    return Unauthenticated(
        f"{session.principal.name}, whom the certificate names, may not go on",
        do="ask an administrator, or call again if only the role has changed",
    )


def invalid() -> Unauthenticated:
    """What is said of a token that is no good, or no good any more."""
    return Unauthenticated(
        "invalid token: it is not one of ours, or it has ended",
        reason="INVALID_TOKEN",
        do="windlass login gets a new one",
    )
