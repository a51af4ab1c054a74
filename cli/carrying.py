"""Lets every call of a channel carry a token."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio


def carrying(token: str) -> Sequence[grpc.aio.ClientInterceptor]:
    return (_Single(token), _Streamed(token))


class _Carrier:
    def __init__(self, token: str) -> None:
        self._token = token

    def _with(self, details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
        given = (*(details.metadata or ()), ("authorization", f"Bearer {self._token}"))
        return grpc.aio.ClientCallDetails(
            details.method,
            details.timeout,
            grpc.aio.Metadata(*given),
            details.credentials,
            details.wait_for_ready,
        )


class _Single(_Carrier, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self,
        continuation: Callable[..., Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(self._with(client_call_details), request)


class _Streamed(_Carrier, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self,
        continuation: Callable[..., Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(self._with(client_call_details), request)
