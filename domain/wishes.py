"""What may be wished of an operation beside what its request says."""

from domain.errors import Invalid
from domain.metadata import OWNER
from domain.operation import Ask, Kind

FORCE, APPROVE_EACH = "windlass-force", "windlass-approve-each"
STORAGE, DATA = "windlass-storage", "windlass-data"
"""The metadata, or headers, that carry a wish."""

STOPS = frozenset({"pool"})
"""Before what an operation can wait to be approved."""

KEEP, DELETE = "keep", "delete"
"""What may become of a deleted cluster's data. It is deleted only if the cluster's name is said
besides."""

WISHES: dict[str, frozenset[Kind]] = {
    FORCE: frozenset({Kind.DELETE_CLUSTER}),
    APPROVE_EACH: frozenset({Kind.UPGRADE_CLUSTER}),
    STORAGE: frozenset({Kind.CREATE_CLUSTER}),
    DATA: frozenset({Kind.DELETE_CLUSTER}),
    OWNER: frozenset({Kind.CREATE_CLUSTER}),
}
"""Which kinds of operations hear it. Others refuse it: whoever wishes for it counts on it."""


def settles(ask: Ask, name: str) -> bool:
    """Whether it is said what becomes of that cluster's data."""
    return ask.data == KEEP or (ask.data == DELETE and ask.data_of == name)


def refuse_wishes(kind: Kind, ask: Ask) -> None:
    """Refuse what this kind of operation could not heed."""
    for name, wished in (
        (FORCE, ask.force),
        (APPROVE_EACH, ask.approve_each),
        (STORAGE, ask.storage),
        (DATA, ask.data),
        (OWNER, ask.owner),
    ):
        if wished and kind not in WISHES[name]:
            raise Invalid(
                f"{name} is not for {kind}",
                subject=name,
                reason="WISH_NOT_HEEDED",
                do=f"ask again without {name}",
            )
