"""How often a process looks for garbage in cycles: seldom, since servers make many objects that all
go by themselves."""

import asyncio
import ctypes
import gc
from contextlib import suppress
from pathlib import Path

OBJECTS = 20_000
"""So many more than there were before it looks among the youngest: 700 by default, which is every
few rows of a page that is shown."""


def settle() -> None:
    """To be called once all is loaded. What is here now stays, and no collection walks through it
    again; of what comes later many are looked at together."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])


LOOK_SECONDS = 15.0
GROWN_PAGES = 8192
"""So many more than when all was loaded, 32 MB with pages of 4 KiB, and memory is given back."""


async def give_back() -> None:
    """Give memory back to the system some time after many calls have ended: the allocator keeps
    what is free."""
    settled = _pages()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if _pages() > settled + GROWN_PAGES:
            with suppress(OSError, AttributeError):  # an allocator that is not glibc's
                ctypes.CDLL(None).malloc_trim(0)


def _pages() -> int:
    """How many pages of memory this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
