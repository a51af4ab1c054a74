"""Channels to a control plane that asks who calls: every call carries the token in WINDLASS_TOKEN,
as those of the command do. Without one nothing is carried."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio

TOKEN = "WINDLASS_TOKEN"  # noqa: S105 (the variable's name)


def opened(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    token = os.environ.get(TOKEN, "")
    kinds = (_Single, _Answers, _Asks, _Both) if token else ()
    return grpc.aio.insecure_channel(
        address, options=list(options), interceptors=[kind(token) for kind in kinds]
    )


class _Bearer:
    def __init__(self, token: str) -> None:
        self._given = ("authorization", f"Bearer {token}")

    def _with(self, details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
        return grpc.aio.ClientCallDetails(
            details.method,
            details.timeout,
            grpc.aio.Metadata(*(details.metadata or ()), self._given),
            details.credentials,
            details.wait_for_ready,
        )

    async def _carried(
        self,
        continuation: Callable[..., Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        return await continuation(self._with(client_call_details), request)


class _Single(_Bearer, grpc.aio.UnaryUnaryClientInterceptor):
    intercept_unary_unary = _Bearer._carried


class _Answers(_Bearer, grpc.aio.UnaryStreamClientInterceptor):
    intercept_unary_stream = _Bearer._carried


class _Asks(_Bearer, grpc.aio.StreamUnaryClientInterceptor):
    intercept_stream_unary = _Bearer._carried  # type: ignore[assignment]


class _Both(_Bearer, grpc.aio.StreamStreamClientInterceptor):
    intercept_stream_stream = _Bearer._carried  # type: ignore[assignment]
