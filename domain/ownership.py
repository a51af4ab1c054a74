"""Ownership: what an instance or a cluster was made for, as its maker wrote it down.

A name alone does not say whose something is: names are cut short, and anybody may choose one. So
whoever finds something under a name of its own compares the owner before it uses, changes or
removes it."""

from domain.errors import Conflict, Invalid

OWNER_LENGTH = 2000
OWNER_RULE = f"at most {OWNER_LENGTH} printable characters of ASCII"


def is_owner(text: str) -> bool:
    """Whether `text` may stand as an owner. The empty text is allowed: no owner is recorded."""
    return len(text) <= OWNER_LENGTH and text.isascii() and (not text or text.isprintable())


def claimed(what: str, recorded: str, owner: str) -> str:
    """The owner to record for `what`. An owner that is recorded already stays. Conflict if it is
    another one."""
    if not owner or not is_owner(owner):
        raise Invalid(
            f"owner: has to be {OWNER_RULE}", subject=what, reason="OWNER_INVALID", do="name one"
        )
    if recorded not in ("", owner):
        raise foreign(what)
    return owner


def foreign(what: str) -> Conflict:
    """The refusal to use what belongs to another owner, who is not named: strangers may read it."""
    return Conflict(
        f"{what} belongs to another owner",
        subject=what,
        reason="OWNED_BY_ANOTHER",
        do="nothing was changed; delete the other one, or choose another name",
    )
