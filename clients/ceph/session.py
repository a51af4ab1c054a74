"""Calls to the manager of a Ceph cluster: signed in once, in the versions it speaks, and every
answer either a document or our error.

Signing in costs the manager a hundred times what a read costs, and ten refusals lock the account:
so a token is used for as long as it lives, one caller signs in for all, and a password that was
refused is not offered again."""

import asyncio
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx2

from domain.errors import (
    AlreadyExists,
    Conflict,
    DomainError,
    Failed,
    Forbidden,
    NotFound,
    Overdue,
    Unavailable,
)

Document: TypeAlias = Any
Password: TypeAlias = Callable[[], Awaitable[str]]

MEDIA = "application/vnd.ceph.api.v{}+json"
FIRST_VERSION = "1.0"
ANOTHER_VERSION = re.compile(r"endpoint is '([\d.]+)'")

LARGEST_ANSWER = 32 * 1024 * 1024
LONGEST_QUOTE = 300
CONNECT_SECONDS = 2.0

RENEW_SECONDS = 7 * 3600.0
"""Tokens live for eight hours."""

TASK_SECONDS = 90.0
"""How long a change may go on that was not done at once."""

TASK_PAUSE_SECONDS = 0.5


class Verdict(NamedTuple):
    """What an answer that is no success means to us, and what to do about it."""

    error: type[DomainError]
    reason: str
    do: str = ""


ERRNO: dict[str, Verdict] = {
    "1": Verdict(Conflict, "CEPH_REFUSED"),
    "2": Verdict(NotFound, "CEPH_NOT_FOUND"),
    "13": Verdict(Forbidden, "CEPH_FORBIDDEN"),
    "16": Verdict(Unavailable, "CEPH_BUSY"),
    "17": Verdict(AlreadyExists, "CEPH_EXISTS"),
    "22": Verdict(Conflict, "CEPH_REFUSED"),
    "110": Verdict(Unavailable, "CEPH_DOWN"),
}
"""A refused change carries the errno of the command behind it."""

CREDENTIALS = Verdict(
    Failed, "CEPH_CREDENTIALS", "give Windlass the name and password of a user of the dashboard"
)
STATUSES: dict[int, Verdict] = {
    400: Verdict(Failed, "CEPH_REFUSED"),
    401: CREDENTIALS,
    403: Verdict(Failed, "CEPH_FORBIDDEN", "let the user do this, by a role in Ceph's dashboard"),
    404: Verdict(NotFound, "CEPH_NOT_FOUND"),
}
DOWN = Verdict(Unavailable, "CEPH_DOWN")
UNATTENDED = Verdict(
    Unavailable, "CEPH_NO_ORCHESTRATOR", "see in Ceph whether it is on: ceph orch status"
)
"""Of one that has just taken over this is true for seconds, so it is worth another try."""

NO_ORCHESTRATOR = "orchestrator_status_unavailable"
STRANGE = Verdict(Failed, "CEPH_STRANGE", "check that the URL leads to the dashboard of Ceph")


class Session:
    """One cluster, by the URLs of its managers, of which one at a time answers. A user's password
    is asked for when there is need of it, so it may be changed while we run."""

    def __init__(
        self,
        urls: Sequence[str],
        user: str,
        password: Password,
        *,
        authority: Path | None = None,
        timeout_seconds: float = 10,
    ) -> None:
        """`authority` is the only one trusted, or the manager's own certificate. Names are not
        compared then: the certificate that Ceph makes for itself has none."""
        self._urls = [url.rstrip("/") + "/api/" for url in urls]
        self._user, self._password = user, password
        self._timeout_seconds = timeout_seconds
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
            verify=_trust(authority) if authority else True,
            trust_env=False,
        )
        self._token = ""
        self._signed_in = 0.0
        self._refused = ""
        self._signing_in = asyncio.Lock()
        self._versions: dict[str, str] = {}

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **query: str) -> Document:
        """Read something."""
        return await self.ask("GET", path, query=query)

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Document:
        """What one call comes to. A change that is not done within two seconds is waited for."""
        token = await self._signed()
        said = f"{method} {path}"
        reply = await self._versioned(said, method, path, body, query, token)
        if reply.status_code == 401:  # it was ended from elsewhere, or its cluster was restored
            token = await self._signed(instead_of=token)
            reply = await self._versioned(said, method, path, body, query, token)
        if reply.status_code == 202:
            return await self._finished(said, _document(said, reply), token)
        return _judged(said, reply)

    async def _signed(self, instead_of: str = "") -> str:
        """A token. Whoever comes first signs in for all."""
        async with self._signing_in:
            now = asyncio.get_running_loop().time()
            spent = self._token == instead_of or now - self._signed_in > RENEW_SECONDS
            if not self._token or spent:
                self._token = await self._sign_in()
                self._signed_in = now
            return self._token

    async def _sign_in(self) -> str:
        password = await self._password()
        if self._refused and password == self._refused:
            raise _error(CREDENTIALS, "Ceph refused this password before; it is not offered again")
        said, body = "POST auth", {"username": self._user, "password": password}
        reply = await self._versioned(said, "POST", "auth", body, None, "")
        if reply.status_code in (400, 401, 403):
            self._refused = password
            raise _error(CREDENTIALS, f"Ceph does not let the user {self._user} in")
        try:
            return str(_judged(said, reply)["token"])
        except (LookupError, TypeError) as error:
            raise unreadable(said, "a token") from error

    async def _versioned(
        self,
        said: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
        token: str,
    ) -> httpx2.Response:
        """Ask in the version this call is known to have; once more if it names another."""
        version = self._versions.get(said, FIRST_VERSION)
        reply = await self._sent(said, method, path, body, query, token, version)
        named = ANOTHER_VERSION.search(reply.text) if reply.status_code == 415 else None
        if named is None:
            return reply
        self._versions[said] = named[1]
        return await self._sent(said, method, path, body, query, token, named[1])

    async def _sent(
        self,
        said: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
        token: str,
        version: str,
    ) -> httpx2.Response:
        """To the manager that answered last, or to the next one if it does not; one that waits
        for its turn sends us on, and is left for the one it names."""
        headers = {"Accept": MEDIA.format(version)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        trouble = ""
        for url in tuple(self._urls):
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    reply = await self._http.request(
                        method, url + path, json=body, params=query or None, headers=headers
                    )
            except TimeoutError:
                trouble = f"within {self._timeout_seconds:g} s"
            except httpx2.HTTPError as error:
                trouble = f"properly: {error or type(error).__name__}"
            else:
                if len(reply.content) > LARGEST_ANSWER:
                    raise unreadable(said, f"less than {LARGEST_ANSWER} bytes")
                if not reply.is_redirect:
                    return reply
                trouble = f"itself and named {reply.headers.get('location', 'nobody')}"
            self._urls.remove(url)
            self._urls.append(url)
        raise _error(DOWN, f"Ceph did not answer {said} {trouble}")

    async def _finished(self, said: str, task: Document, token: str) -> Document:
        """What becomes of a change that goes on. Of several of one name and subject the latest is
        ours, since changes of one subject are asked for one after the other."""
        try:
            async with asyncio.timeout(TASK_SECONDS):
                while True:
                    query = {"name": str(task["name"])}
                    reply = await self._versioned(said, "GET", "task", None, query, token)
                    tasks = _judged(said, reply)
                    if not _about(tasks["executing_tasks"], task):
                        break
                    await asyncio.sleep(TASK_PAUSE_SECONDS)
            finished = _about(tasks["finished_tasks"], task)
            latest = max(finished, key=lambda each: str(each["begin_time"]), default=None)
            if latest is not None and not latest["success"]:
                told = latest.get("exception") or {}
                verdict = ERRNO.get(str(told.get("code")), STATUSES[400])
                raise _error(verdict, f"Ceph gave up on {said}: {_short(str(told.get('detail')))}")
            return latest and latest.get("ret_value")
        except TimeoutError as error:
            raise Overdue(f"Ceph has not finished {said} after {TASK_SECONDS:g} s") from error
        except (LookupError, TypeError) as error:
            raise unreadable(said, "a task") from error


def _about(tasks: Sequence[Document], task: Document) -> list[Document]:
    wanted = (task["name"], task["metadata"])
    return [each for each in tasks if (each["name"], each["metadata"]) == wanted]


def _judged(said: str, reply: httpx2.Response) -> Document:
    """The document of a success; else our error."""
    if reply.is_success:
        return _document(said, reply)
    try:
        told = json.loads(reply.content)
        code, words = str(told.get("code", "")), str(told.get("detail", ""))
    except (ValueError, AttributeError):
        code, words = "", reply.text
    if reply.status_code >= 500:
        verdict = UNATTENDED if code == NO_ORCHESTRATOR else DOWN
    else:
        verdict = STATUSES.get(reply.status_code, STRANGE)
        if reply.status_code == 400:
            verdict = ERRNO.get(code, verdict)
    raise _error(verdict, f"Ceph answered {reply.status_code} to {said}: {_short(words)}")


def _document(said: str, reply: httpx2.Response) -> Document:
    if not reply.content:
        return None
    try:
        return json.loads(reply.content)
    except ValueError as error:
        raise unreadable(said, "JSON") from error


def unreadable(said: str, wanted: str) -> Unavailable:
    """A success that says something else than was asked. Something in between may have spoken."""
    return Unavailable(f"Ceph answered {said} with what is not {wanted}", reason="CEPH_STRANGE")


def _error(verdict: Verdict, message: str) -> DomainError:
    return verdict.error(message, reason=verdict.reason, do=verdict.do)


def _short(words: str) -> str:
    return " ".join(words[:LONGEST_QUOTE].split())


def _trust(authority: Path) -> ssl.SSLContext:
    try:
        trust = ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise Failed(
            f"{authority} holds no certificate to trust Ceph by: {error}",
            reason="CEPH_CREDENTIALS",
            do="put the certificate of its authority there, or that of the manager itself",
        ) from error
    trust.check_hostname = False
    return trust
