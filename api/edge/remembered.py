"""Apps' instances as they are written to whoever asks. Most have not changed since they were last
shown, and what was written of them then is still true."""

from api.edge.instances import appinst_message
from store.appinsts import Noted

MOST = 131_072
"""So many are remembered, in some 80 MB, and then all are made anew."""


class Remembered:
    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._made: dict[str, tuple[int, bytes]] = {}
        """By their keys, with a hash of all that each was made of: 64 bits, and others every time
        that Windlass starts, so that nobody can have two that are alike."""

    def written(self, noted: Noted) -> bytes:
        mark = hash(noted)
        made = self._made.get(noted.key)
        if made is None or made[0] != mark:
            if made is None and len(self._made) >= self._most:
                self._made.clear()
            message = appinst_message(noted.standing())
            made = self._made[noted.key] = mark, message.SerializeToString()
        return made[1]
