"""Probes: how an agent finds out whether an instance that runs also works."""

from domain.frozen import Frozen


class Probe(Frozen):
    """One way to ask, and how often. Exactly one of `command`, `http` and `tcp` is said."""

    command: tuple[str, ...] = ()
    """Run beside it; it works if that ends with 0."""
    http: str = ""
    """`:PORT/PATH`; it works if that is answered with 200 to 399."""
    tcp: int = 0
    """It works if that port takes a connection."""
    interval_seconds: float = 10.0
    timeout_seconds: float = 3.0
    retries: int = 3
    """So many times in a row it may not work; then it is ended as FAILED."""
    start_seconds: float = 5.0
    """So long after its start it need not work yet."""
