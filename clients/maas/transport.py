"""Calls to MAAS: signed one by one, few at a time, and every answer either bytes or our error."""

import asyncio
from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import httpx2
from oauthlib import oauth1

from domain.errors import Conflict, DomainError, Failed, Invalid, NotFound, Unavailable

Parameters: TypeAlias = Mapping[str, str | Sequence[str]]

Answer = TypeVar("Answer")

LARGEST_ANSWER = 64 * 1024 * 1024
"""A machine is 12 kB, so this is a list of five thousand."""

LONGEST_QUOTE = 300
"""How much of an answer an error quotes."""

TRIES = 3
"""For calls that MAAS itself asks to repeat. Whoever called us has more patience than that."""

INSISTENCE = 3.5
"""So many times as long is waited for the answer to what must not be done unseen. MAAS works at one
request for up to 90 seconds, tries of its own included, so with 30 seconds it has ended by then."""


class Verdict(NamedTuple):
    """What an answer that is no success means to us, and what to do about it."""

    error: type[DomainError]
    reason: str
    do: str = ""


VERDICTS: dict[int, Verdict] = {
    400: Verdict(Invalid, "MAAS_REFUSED"),
    401: Verdict(Failed, "MAAS_CREDENTIALS", "give Windlass a valid MAAS API key"),
    403: Verdict(Failed, "MAAS_FORBIDDEN", "let the user of the API key do this in MAAS"),
    404: Verdict(NotFound, "MAAS_NOT_FOUND"),
    408: Verdict(Unavailable, "MAAS_DOWN"),
    409: Verdict(Conflict, "MAAS_STATE"),
    429: Verdict(Unavailable, "MAAS_BUSY"),
}

BUSY = Verdict(Unavailable, "MAAS_BUSY")
"""Its database collided or a power action runs; it was not our request."""

DOWN = Verdict(Unavailable, "MAAS_DOWN")

STRANGE = Verdict(Failed, "MAAS_STRANGE", "check that the MAAS URL leads to MAAS")


def verdict(status: int, *, asked_to_return: bool) -> Verdict:
    """What a status means. 409 has two meanings: with Retry-After it says nothing about us."""
    if status == 503 or (status == 409 and asked_to_return):
        return BUSY
    return VERDICTS.get(status, DOWN if status >= 500 else STRANGE)


class Signature(httpx2.Auth):
    """OAuth 1.0 in plain text. MAAS remembers nonces, so every try is signed anew."""

    def __init__(self, api_key: str) -> None:
        parts = api_key.strip().split(":")
        if len(parts) != 3:
            raise Invalid("a MAAS API key is consumer:token:secret", reason="MAAS_CREDENTIALS")
        consumer, token, secret = parts
        self._signer = oauth1.Client(
            consumer,
            client_secret="",
            resource_owner_key=token,
            resource_owner_secret=secret,
            signature_method=oauth1.SIGNATURE_PLAINTEXT,
            realm="OAuth",
        )

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        _, headers, _ = self._signer.sign(str(request.url))
        request.headers["Authorization"] = headers["Authorization"]
        yield request


class Maas:
    """One region, through the API key of one of its users. At most `at_once` requests are under
    way. One that takes longer than `timeout_seconds` is Unavailable, whatever became of it."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        at_once: int = 10,
        timeout_seconds: float = 30,
        pause_seconds: float = 1,
    ) -> None:
        self._http = httpx2.AsyncClient(
            base_url=f"{url.rstrip('/')}/api/2.0/",
            auth=Signature(api_key),
            timeout=timeout_seconds,
            limits=httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once),
            trust_env=False,
        )
        self._places = asyncio.Semaphore(at_once)
        self._timeout_seconds = timeout_seconds
        self._pause_seconds = pause_seconds

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **query: str | Sequence[str]) -> bytes:
        """Read something."""
        return await self._call("GET", path, query, None)

    async def post(self, path: str, op: str = "", **form: str | Sequence[str]) -> bytes:
        """Do something once. Unavailable may mean that it was done and the answer was lost."""
        return await self._call("POST", path, {"op": op} if op else {}, form)

    async def insist(self, path: str, op: str = "", **form: str | Sequence[str]) -> bytes:
        """Do something once that must not be done after we have looked whether it was. What is
        under way is waited for longer than MAAS works at anything, also if we are cancelled: that
        is heeded once there is an answer."""
        return await self._call("POST", path, {"op": op} if op else {}, form, insisting=True)

    async def put(self, path: str, **form: str | Sequence[str]) -> bytes:
        """Make something be so."""
        return await self._call("PUT", path, {}, form)

    async def delete(self, path: str) -> bytes:
        """Take something away. NotFound if it is not there."""
        return await self._call("DELETE", path, {}, None)

    async def _call(
        self,
        method: str,
        path: str,
        query: Parameters,
        form: Parameters | None,
        *,
        insisting: bool = False,
    ) -> bytes:
        """Try, and try again while MAAS says to come back, but not for long."""
        said = f"{method} {path}" + (f"?op={query['op']}" if "op" in query else "")
        for left in reversed(range(TRIES)):
            try:
                return await self._try(said, method, path, query, form, insisting=insisting)
            except Unavailable as busy:
                if busy.reason != BUSY.reason or not left:
                    raise
            await asyncio.sleep(self._pause_seconds)
        raise AssertionError("the last try returns or raises")

    async def _try(
        self,
        said: str,
        method: str,
        path: str,
        query: Parameters,
        form: Parameters | None,
        *,
        insisting: bool,
    ) -> bytes:
        seconds = self._timeout_seconds * (INSISTENCE if insisting else 1)
        request = self._http.build_request(method, path, params=query, data=form, timeout=seconds)
        async with self._places:
            sent = self._sent(said, request, seconds)
            reply, body = await (_seen_through(sent) if insisting else sent)
        if reply.is_success:
            return body
        asked_to_return = "Retry-After" in reply.headers
        kind = verdict(reply.status_code, asked_to_return=asked_to_return)
        quote = body[:LONGEST_QUOTE].decode(errors="replace")
        raise kind.error(
            f"MAAS answered {reply.status_code} to {said}: {' '.join(quote.split())}",
            reason=kind.reason,
            do=kind.do,
        )

    async def _sent(
        self, said: str, request: httpx2.Request, seconds: float
    ) -> tuple[httpx2.Response, bytes]:
        try:
            async with asyncio.timeout(seconds):
                reply = await self._http.send(request, stream=True)
                try:
                    return reply, await self._body(said, reply)
                finally:
                    await reply.aclose()
        except TimeoutError as error:
            raise _silent(said, f"within {seconds:g} s") from error
        except httpx2.HTTPError as error:
            raise _silent(said, f"properly: {error or type(error).__name__}") from error

    async def _body(self, said: str, reply: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in reply.aiter_bytes():
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise Unavailable(
                    f"MAAS answered {said} with more than {LARGEST_ANSWER} bytes",
                    reason="MAAS_STRANGE",
                )
        return bytes(body)


async def _seen_through(work: Coroutine[None, None, Answer]) -> Answer:
    """Wait until it has ended, however. Being cancelled meanwhile is heeded then."""
    task, cancelled = asyncio.create_task(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()  # whatever it was, nobody asks for it any more
        raise asyncio.CancelledError
    return task.result()


def _silent(said: str, how: str) -> Unavailable:
    return Unavailable(f"MAAS did not answer {said} {how}", reason="MAAS_DOWN")


def unreadable(said: str, wanted: str) -> Unavailable:
    """A success that says something else than was asked. Something in between may have spoken."""
    return Unavailable(f"MAAS answered {said} with what is not {wanted}", reason="MAAS_STRANGE")
