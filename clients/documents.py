"""Documents that lie elsewhere: the texts that apps refer to by URL.

Only what an operator has allowed is asked. Redirects are not followed, since they lead anywhere,
and no proxy or password of our environment is used."""

import asyncio
from collections.abc import Iterable, Mapping

import httpx2

from domain.fetching import is_allowed
from domain.refusal import Refusal

SECONDS = 10.0
"""How long one document may take, from the first to the last byte."""

LARGEST = 1024 * 1024
LONGEST_URL = 2000


class Documents:
    """The documents of `domain.ports`, over HTTP."""

    def __init__(
        self, allowed: Iterable[str], *, seconds: float = SECONDS, largest: int = LARGEST
    ) -> None:
        self._allowed = tuple(allowed)
        self._seconds = seconds
        self._largest = largest

    async def fetch(self, url: str) -> str:
        return await self._asked("GET", url)

    async def generate(self, url: str, described: Mapping[str, object]) -> str:
        return await self._asked("POST", url, described)

    async def _asked(self, verb: str, url: str, body: Mapping[str, object] | None = None) -> str:
        if len(url) > LONGEST_URL or not is_allowed(url, self._allowed):
            raise Refusal.FETCH_FORBIDDEN(url=url[:LONGEST_URL])
        try:
            async with asyncio.timeout(self._seconds):
                return (await self._read(verb, url, body)).decode()
        except TimeoutError as error:
            raise _failed(url, f"it took more than {self._seconds:g} s") from error
        except UnicodeDecodeError as error:
            raise _failed(url, "it is no UTF-8 text") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _failed(url, str(error) or type(error).__name__) from error

    async def _read(self, verb: str, url: str, body: Mapping[str, object] | None) -> bytes:
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=self._seconds) as http,
            http.stream(verb, url, json=body) as reply,
        ):
            if reply.status_code != httpx2.codes.OK:
                raise _failed(url, f"the answer was {reply.status_code}")
            text = b""
            async for part in reply.aiter_bytes():
                text += part
                if len(text) > self._largest:
                    raise _failed(url, f"it is longer than {self._largest} bytes")
            return text


def _failed(url: str, why: str) -> Exception:
    return Refusal.FETCH_FAILED(url=url, why=why)
