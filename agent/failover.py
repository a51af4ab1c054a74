"""One channel to a control plane that has several addresses: calls go to one of them until it
cannot be reached, and to the next from then on. What is in flight when an address goes
away fails, as on any channel; its caller tries again and gets the next one."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from domain.errors import Invalid

SILENCE = (
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # a minute unless it is said
    ("grpc.min_reconnect_backoff_ms", 3_000),  # it is the limit of one try to connect
)
"""Where there is another address a silent one is left within 11 s, before a node counts as lost."""

AWAY = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


def addresses(text: str) -> list[str]:
    """Where a control plane is, as people write it. Invalid if an address is missing."""
    found = [each.strip() for each in text.split(",")]
    if not all(found):
        raise Invalid(
            f"{text!r} lacks an address",
            do="write HOST:PORT, or several with commas between them",
        )
    return found


class FailoverChannel(grpc.aio.Channel):
    def __init__(self, channels: Sequence[grpc.aio.Channel], first: int = 0) -> None:
        """Each channel leads to one address. They are this one's, and closed with it."""
        self._channels = channels
        self._current = first % len(channels)

    async def __aenter__(self) -> "FailoverChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        for channel in self._channels:
            await channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channels[self._current].get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channels[self._current].wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channels[self._choose()].channel_ready()

    def unary_unary(self, *method: Any, **more: Any) -> Any:
        return self._spread("unary_unary", method, more)

    def unary_stream(self, *method: Any, **more: Any) -> Any:
        return self._spread("unary_stream", method, more)

    def stream_unary(self, *method: Any, **more: Any) -> Any:
        return self._spread("stream_unary", method, more)

    def stream_stream(self, *method: Any, **more: Any) -> Any:
        return self._spread("stream_stream", method, more)

    def _spread(
        self, kind: str, method: tuple[Any, ...], more: dict[str, Any]
    ) -> Callable[..., Any]:
        calls = [getattr(channel, kind)(*method, **more) for channel in self._channels]

        def call(*request: Any, **terms: Any) -> Any:
            return calls[self._choose()](*request, **terms)

        return call

    def _choose(self) -> int:
        """The present address as long as it can be reached, or none else can: then each in turn."""
        if self._state(self._current) not in AWAY:
            return self._current
        turns = [
            (self._current + step) % len(self._channels) for step in range(1, len(self._channels))
        ]
        reached = (turn for turn in turns if self._state(turn) not in AWAY)
        self._current = next(reached, turns[0] if turns else self._current)
        return self._current

    def _state(self, turn: int) -> grpc.ChannelConnectivity:
        return self._channels[turn].get_state()
