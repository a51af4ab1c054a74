"""Apps' instances as they are written to whoever asks. Most have not changed since they were last
shown, and what was written of them then is still true."""

import random
from typing import NamedTuple

from api.edge.instances import appinst_message
from store.appinsts import Noted

MOST_BYTES = 96_000_000
"""That all of them may weigh: a hundred thousand with some ports and containers."""

LARGEST = 16_384
"""Bytes of one. What is larger is made anew every time."""

BESIDE = 256
"""Bytes that keeping one takes beside its key and what is written of it."""


class _Made(NamedTuple):
    mark: int
    """A hash of all it was made of. It is of 64 bits, and other ones in every process, so that two
    that are alike are as good as never, and nobody can make them."""
    written: bytes


class Remembered:
    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._made: dict[str, _Made] = {}
        self._keys: list[str] = []
        self.bytes = 0
        """That they weigh."""

    def written(self, noted: Noted) -> bytes:
        mark = hash(noted)
        made = self._made.get(noted.key)
        if made is None or made.mark != mark:
            message = appinst_message(noted.standing())
            made = _Made(mark, message.SerializeToString())
            if len(made.written) <= LARGEST:
                self._keep(noted.key, made)
        return made.written

    def _keep(self, key: str, made: _Made) -> None:
        """One too many makes any other forgotten. Shows go by key: the oldest would be just what
        they ask for next. In time it hits what is not there any more, too."""
        before = self._made.get(key)
        if before is None:
            self._keys.append(key)
            self.bytes += len(key) + BESIDE
        else:
            self.bytes -= len(before.written)
        self._made[key] = made
        self.bytes += len(made.written)
        while self.bytes > self._most:
            self._forget(random.randrange(len(self._keys)))  # noqa: S311 - no secret

    def _forget(self, place: int) -> None:
        keys = self._keys
        keys[place], keys[-1] = keys[-1], keys[place]
        key = keys.pop()
        self.bytes -= len(key) + BESIDE + len(self._made.pop(key).written)
