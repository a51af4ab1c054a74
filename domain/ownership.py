"""Ownership: what an instance or a cluster was made for, as its maker wrote it down.

A name alone does not say whose something is: names are cut short, and anybody may choose one. So
whoever finds something under a name of its own compares the owner before it uses, changes or
removes it."""

import json

from domain.errors import Conflict, Invalid

OWNER_LENGTH = 2000
SHOWN_LENGTH = 300
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


def warning(cluster: str, owner: str) -> str:
    """What to say before a cluster is changed or deleted that was made for somebody. Empty: it was
    made for nobody."""
    if not owner:
        return ""
    return (
        f"cluster {cluster} belongs to {shown(owner)}, which does not follow what is done here; "
        "change or delete that instead"
    )


def shown(owner: str) -> str:
    """An owner for people to read: ClusterInst OPERATOR/CLOUDLET/CLUSTER/DEVELOPER, and the
    beginning of one in any other form."""
    kind, _, text = owner.partition(" ")
    try:
        key = json.loads(text)
        place = key["cloudlet_key"]
        names = (place["operator_key"]["name"], place["name"], key["cluster_key"]["name"])
        whole = "/".join([*names, key["developer"]])
    except (ValueError, KeyError, TypeError, RecursionError):
        return owner[:SHOWN_LENGTH]
    return f"{kind} {whole}"[:SHOWN_LENGTH]
