"""Channels to a control plane that asks who calls: every call carries the token in WINDLASS_TOKEN,
as those of the command do. Without one nothing is carried. WINDLASS_CA names a file with whom
we trust to be the control plane; without one nothing is encrypted."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

TOKEN = "WINDLASS_TOKEN"  # noqa: S105 (the variable's name)
CA = "WINDLASS_CA"


def opened(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    token, ca = os.environ.get(TOKEN, ""), os.environ.get(CA, "")
    carriers = carrying(token) if token else []
    if not ca:
        return grpc.aio.insecure_channel(address, options=list(options), interceptors=carriers)
    trusted = grpc.ssl_channel_credentials(Path(ca).read_bytes())
    return grpc.aio.secure_channel(address, trusted, options=list(options), interceptors=carriers)


def carrying(token: str) -> list[grpc.aio.ClientInterceptor]:
    """What a channel needs for each of its calls to carry a token."""
    return [kind(token) for kind in (_Single, _Answers, _Asks, _Both)]


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
