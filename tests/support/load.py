"""Time limits of tests: they grow with the load of the machine."""

import asyncio
import os

MOST = 8
"""As many times its usual length a limit grows at most: a test that hangs still ends."""


def grown(seconds: float) -> float:
    """What a limit that is meant for a quiet machine is now, by the load of the last minute."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(load, 1.0), MOST)


def limit(seconds: float) -> asyncio.Timeout:
    """`asyncio.timeout`, grown."""
    return asyncio.timeout(grown(seconds))
