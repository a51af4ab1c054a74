"""How often a process looks for garbage in cycles: seldom, since servers make many objects that all
go by themselves."""

import gc

OBJECTS = 20_000
"""So many more than there were before it looks among the youngest: 700 by default, which is every
few rows of a page that is shown."""


def settle() -> None:
    """To be called once all is loaded. What is here now stays, and no collection walks through it
    again; of what comes later many are looked at together."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
