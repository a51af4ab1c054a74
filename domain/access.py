"""Who somebody is, what a method asks of whoever calls it, and what guessing costs."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from domain.errors import Invalid, Violation
from domain.frozen import Frozen
from domain.node_scope import ANY_NODE, NodeScope


class Role(StrEnum):
    """What somebody is here for. A user has one."""

    VIEWER = "viewer"
    """Reads everything but secrets and what others did."""
    DEVELOPER = "developer"
    """Has the apps and instances of one developer at the edge, and sees no others."""
    OPERATOR = "operator"
    """Changes whatever there is."""
    ADMIN = "admin"
    """Also says who may do what."""
    AGENT = "agent"
    """A program at the edge or on a node that reports to us."""


class Principal(Frozen):
    """Who calls, once that is known."""

    name: str
    role: Role
    tenant: str = "default"
    developer: str = ""
    """Whose objects at the edge theirs are. Of developers alone."""


ANYONE = Principal(name="anonymous", role=Role.ADMIN)
"""Whoever calls where nobody has to sign in."""

NO_ONE = Principal(name="anonymous", role=Role.VIEWER)
"""Whoever calls what is open to everybody, where the rest is not."""


class Permission(NamedTuple):
    """What a method asks of whoever calls it. Every method that is served has one."""

    roles: frozenset[Role] | None
    """Who may call it. None: everybody, signed in or not."""
    changes: bool = False
    """Whether calls are written into the audit trail."""
    owners: tuple[str, ...] = ()
    """Where a request says whose object is meant, such as `key.developer`. The first has to say
    it, others may leave it open."""
    narrows: bool = False
    """Whether the request is a filter: a developer's is narrowed to what is theirs."""
    discloses: bool = False
    """Whether it may answer with a secret. The handler notes it if it does, and the audit trail
    has it then."""
    subject: str = ""
    """Where a request names what it is about, for the audit trail: a field, or a message of which
    all texts are told. Every method that the trail has says so, or that its handler does."""
    own: bool = False
    """Whether it is about the caller where the request names nobody."""
    command: str = ""
    """The field of what it has run, which the trail has, too."""

    def about(self, subject: str, command: str = "") -> "Permission":
        """The same for a request that names there what it is about."""
        return self._replace(subject=subject, command=command)


BY_HANDLER = "-"
"""Instead of a field: the handler notes what it turned out to be about."""


class User(Frozen):
    """Somebody who can sign in."""

    principal: Principal
    disabled: bool = False
    has_password: bool = False
    created: datetime


ANY = "any"
"""What is said instead of OPERATOR/NAME by whoever means all cloudlets."""


class TokenInfo(Frozen):
    """What is known of a token, which is everything but the token."""

    id: str
    user: str
    label: str
    """What its user calls it. Empty: it came of signing in."""
    created: datetime
    expires: datetime
    used: datetime
    revoked: datetime | None = None
    source: str = ""
    cloudlets: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Session(Frozen):
    """A credential that was found good."""

    principal: Principal
    digest: str = ""
    """Of the token. Empty: there is none."""
    expires: datetime | None = None
    certified: bool = False
    """Whether a certificate says who it is."""
    made_with: str = ""
    """What ends it as well: the mark of the certificate that says who it is, or of what a token was
    made with, or the digest of the token that it was made with."""
    used: datetime = datetime.min.replace(tzinfo=UTC)
    """When the token was last said to be used."""
    cloudlets: tuple[str, ...] = ()
    """OPERATOR/NAME of the only ones that whoever has it may speak of, or `any`. Empty: agents
    of none, all others of any."""
    nodes: tuple[str, ...] = ()
    """The only nodes that an agent may speak for, as `domain/node_scope.py` reads them."""

    @property
    def node_scope(self) -> NodeScope:
        """The nodes it may speak for. Who is no agent may change anything, and so any node."""
        bound = self.nodes or self.principal.role is Role.AGENT
        return NodeScope(names=self.nodes if bound else (ANY_NODE,))

    @property
    def speaks_of_any(self) -> bool:
        """Whether there is no cloudlet that it may not speak of."""
        unsaid = not self.cloudlets and self.principal.role is not Role.AGENT
        return unsaid or ANY in self.cloudlets

    @property
    def can_end(self) -> bool:
        """Whether there is a user behind it, who may be kept out, or a token."""
        return self.certified or bool(self.digest)

    def speaks_of(self, cloudlet: str) -> bool:
        return self.speaks_of_any or cloudlet in self.cloudlets


USERNAME = re.compile(r"[A-Za-z0-9_-]{3,24}")


def misnamed(name: str) -> list[Violation]:
    """What is wrong with the name of a user."""
    if USERNAME.fullmatch(name) and name != ANYONE.name:
        return []
    said = f"must be 3 to 24 letters, digits, dashes or underscores, and not {ANYONE.name}"
    return [Violation(field="username", description=said)]


CLOUDLET = re.compile(r"[^/]{1,200}/[^/]{1,200}")
"""OPERATOR/NAME: neither has a slash in it."""


FREE_TRIES = 5
"""So many failures of a user from one place before it has to wait."""

FREE_TRIES_OF_A_PLACE = 20
"""So many from one place, whoever it says it is."""

FREE_TRIES_OF_AN_ACCOUNT = 20
"""So many of one user, wherever they are made, but for addresses where the user has signed in."""

LONGEST_WAIT = timedelta(minutes=15)
LONGEST_WAIT_OF_AN_ACCOUNT = timedelta(seconds=30)
"""Short enough that others who guess keep nobody out for good."""
FORGOTTEN_AFTER = timedelta(hours=1)
"""Failures count until none was added for so long."""


def wait(failures: int, free: int, longest: timedelta = LONGEST_WAIT) -> timedelta:
    """How long to wait after so many failures before the next try: twice as long each time."""
    if failures < free:
        return timedelta()
    return min(timedelta(seconds=2 ** min(failures - free, 20)), longest)


def is_open(mode: str, addresses: Iterable[str], *, beyond_loopback: bool) -> bool:
    """Whether whoever does not sign in may do everything, at doors that listen there. Invalid if
    that was said of doors which others can reach, and was not said twice."""
    inside = all(map(is_loopback, addresses))
    if mode != "open":
        return not mode and inside
    if not inside and not beyond_loopback:
        raise Invalid(
            "a door that others can reach would be open to all of them",
            reason="OPEN_TO_ALL",
            do="set WINDLASS_AUTH__MODE=required, or say it twice: "
            "WINDLASS_AUTH__OPEN_BEYOND_LOOPBACK=true",
        )
    return True


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine can reach who listens there."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
