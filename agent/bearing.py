"""Channels to a control plane that asks who calls: every call carries the token in WINDLASS_TOKEN,
as those of the command do. Without one nothing is carried. WINDLASS_CA names a file with whom
we trust to be the control plane; without one nothing is encrypted. Where certificates are asked
for, WINDLASS_CERT and WINDLASS_KEY name ours."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from agent.failover import SILENCE, FailoverChannel, addresses
from domain.errors import Invalid

TOKEN = "WINDLASS_TOKEN"  # noqa: S105 (the variable's name)
CA = "WINDLASS_CA"
CERT, KEY = "WINDLASS_CERT", "WINDLASS_KEY"


def opened(control: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """A channel to a control plane: to one address, or to several with commas between them."""
    several = addresses(control)
    if len(several) == 1:
        return _opened(several[0], options)
    quick = [*dict([*options, *SILENCE]).items()]
    first = random.randrange(len(several))  # noqa: S311 (spreads load)
    return FailoverChannel([_opened(address, quick) for address in several], first)


def _opened(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    token = os.environ.get(TOKEN, "")
    carriers, trusted = carrying(token) if token else [], _credentials()
    if trusted is None:
        return grpc.aio.insecure_channel(address, options=list(options), interceptors=carriers)
    return grpc.aio.secure_channel(address, trusted, options=list(options), interceptors=carriers)


def _credentials() -> grpc.ChannelCredentials | None:
    """Whom we trust, and who we are. None: nothing is encrypted. Invalid if only part is said."""
    ca, cert, key = (os.environ.get(name, "") for name in (CA, CERT, KEY))
    if bool(cert) != bool(key) or (cert and not ca):
        raise Invalid(
            "a certificate needs its key, and somebody to show it to",
            reason="CERTIFICATE_UNUSABLE",
            do=f"set {CERT}, {KEY} and {CA}, or none of them",
        )
    read = [Path(file).read_bytes() for file in (ca, key, cert) if file]
    return grpc.ssl_channel_credentials(*read) if ca else None


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
