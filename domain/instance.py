"""Instances: what may be asked to run on a node, where it stands, and who may move it.

Every instance is a row that its workflow, its callers and its node write in turn. What is here says
what each of them may do to it; who is right when they meet, the row's lock decides."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from domain.errors import Conflict, Invalid, Violation
from domain.frozen import Frozen
from domain.ownership import OWNER_RULE, is_owner
from domain.placement import Amounts, Demands, Policy
from domain.probing import Probe

InstanceUid = NewType("InstanceUid", str)
"""One life of an instance. Its id is the caller's, and may be given to another once it is over."""


class Phase(StrEnum):
    """Where an instance stands.

    SCHEDULING  accepted, and on no node
    SCHEDULED   a node has room for it, which it holds; the node may not know yet
    STARTING    its node has taken it up, or takes it up again
    RUNNING     it runs
    STOPPING    it is told to end, and what it ran in is to stay
    STOPPED     it has ended, and may be started again where it was
    DESTROYING  it is told to end, and nothing of it is to stay
    TERMINATED  it is over: it ended well, or was destroyed, or its node is gone
    FAILED      it is over: it ended badly, or could not be started anywhere
    """

    SCHEDULING = "scheduling"
    SCHEDULED = "scheduled"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DESTROYING = "destroying"
    TERMINATED = "terminated"
    FAILED = "failed"


OVER = frozenset({Phase.TERMINATED, Phase.FAILED})
"""From here nothing leads on; the id is free again."""

WORKING = frozenset({Phase.SCHEDULED, Phase.STARTING, Phase.RUNNING})
"""The phases in which its node may be working on it, so that what the node says counts."""

NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.SCHEDULING: frozenset(
        {Phase.SCHEDULED, Phase.STOPPED, Phase.DESTROYING, Phase.TERMINATED, Phase.FAILED}
    ),
    Phase.SCHEDULED: frozenset(
        {Phase.SCHEDULING, Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.DESTROYING}
    )
    | OVER,
    Phase.STARTING: frozenset({Phase.SCHEDULING, Phase.RUNNING, Phase.STOPPING, Phase.DESTROYING})
    | OVER,
    Phase.RUNNING: frozenset({Phase.SCHEDULING, Phase.STARTING, Phase.STOPPING, Phase.DESTROYING})
    | OVER,
    Phase.STOPPING: frozenset(
        {Phase.STOPPED, Phase.DESTROYING, Phase.STARTING, Phase.SCHEDULING, Phase.RUNNING}
    )
    | OVER,
    Phase.STOPPED: frozenset({Phase.SCHEDULING, Phase.STARTING, Phase.DESTROYING}) | OVER,
    Phase.DESTROYING: frozenset({Phase.STARTING, Phase.SCHEDULING}) | OVER,
    Phase.TERMINATED: frozenset(),
    Phase.FAILED: frozenset(),
}
"""A node may stop or destroy a copy by itself: then it is run again where its policy says so, and
so something leads on from STOPPING and DESTROYING."""


def advance(name: str, now: Phase, to: Phase) -> Phase:
    """Move an instance on. Staying put is allowed: a step run twice says the same thing twice."""
    if to is not now and to not in NEXT[now]:
        raise Conflict(
            f"instance {name} is {now} and cannot become {to}",
            subject=name,
            reason="INSTANCE_STATE",
        )
    return to


class Wish(StrEnum):
    """What its callers want of an instance."""

    RUN = "run"
    STOP = "stop"
    DESTROY = "destroy"


class Call(StrEnum):
    """What may be asked of an instance that is there."""

    START = "start"
    STOP = "stop"
    DESTROY = "destroy"


ASKED: dict[Call, dict[Phase, Phase]] = {
    Call.START: {
        Phase.STOPPED: Phase.STARTING,
        **{phase: phase for phase in (Phase.SCHEDULING, *WORKING)},
    },
    Call.STOP: {
        Phase.SCHEDULING: Phase.STOPPED,
        **dict.fromkeys(WORKING, Phase.STOPPING),
        Phase.STOPPING: Phase.STOPPING,
        Phase.STOPPED: Phase.STOPPED,
    },
    Call.DESTROY: {
        **dict.fromkeys(set(Phase) - OVER, Phase.DESTROYING),
        Phase.TERMINATED: Phase.TERMINATED,
        Phase.FAILED: Phase.FAILED,
    },
}
"""What an instance is once that was asked of it. Where it stays as it is, there is nothing to do;
where nothing stands, it may not be asked."""

WISHES: dict[Call, Wish] = {
    Call.START: Wish.RUN,
    Call.STOP: Wish.STOP,
    Call.DESTROY: Wish.DESTROY,
}

_INSTEAD: dict[Call, str] = {
    Call.START: "wait until it is stopped, or create it again once it is over",
    Call.STOP: "it runs no more, or is being destroyed: there is nothing to stop",
    Call.DESTROY: "",
}


def asked(name: str, now: Phase, call: Call) -> Phase:
    """What an instance becomes when that is asked of it. Conflict if it may not be asked now."""
    if now not in ASKED[call]:
        raise Conflict(
            f"instance {name} is {now} and cannot be asked to {call}",
            subject=name,
            reason="INSTANCE_STATE",
            do=_INSTEAD[call],
            facts={"instance": name, "state": now},
        )
    return ASKED[call][now]


class Restart(StrEnum):
    """Whether it is run again when it has ended by itself, or its node is gone."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=5)
STABLE = timedelta(minutes=10)
"""Whoever ran for so long is run again at once, as if for the first time."""


def pause(restarts: int) -> timedelta:
    """How long to wait before an instance is run again that was run again so often already."""
    factor: int = 2 ** min(restarts, 20)
    return min(FIRST_PAUSE * factor, LONGEST_PAUSE)


def restarts(policy: Restart, *, badly: bool) -> bool:
    """Whether an instance that has ended by itself is run again."""
    return policy is Restart.ALWAYS or (badly and policy is Restart.ON_FAILURE)


def outlives_node(policy: Restart) -> bool:
    """Whether it is run elsewhere when its node is gone, which is no end that it chose."""
    return policy is not Restart.NEVER


class Port(Frozen):
    """A port inside, and the one on the host that leads to it."""

    source: int = 0
    """On the host. 0: any that is free."""
    destination: int


class Report(Frozen):
    """What a node says of a copy."""

    phase: Phase
    says: str = ""
    used: Amounts | None = None


class InstanceSpec(Frozen):
    """What is asked for."""

    id: str
    name: str = ""
    uri: str
    environment: tuple[str, ...] = ()
    """`KEY=VALUE`, each key once."""
    sealed: str = ""
    """Where its environment lies in the vault, if it does: then it is not here."""
    limit: Amounts
    ports: tuple[Port, ...] = ()
    ip: str = ""
    """Empty: any that is free on its node."""
    command: tuple[str, ...] = ()
    """Words, which no shell reads. Empty: what the image says."""
    restart: Restart = Restart.NEVER
    probe: Probe | None = None
    demands: Demands = Demands()
    policy: Policy = Policy.SPREAD
    keeps: bool = True
    """Whether what it ran in stays when it is stopped."""
    owner: str = ""
    """What it was made for, as its maker wrote it down. It never changes once it is said."""


class InstanceView(Frozen):
    """An instance as it stands."""

    uid: InstanceUid
    id: str
    spec: InstanceSpec
    phase: Phase
    wish: Wish
    says: str = ""
    node: str = ""
    incarnation: int = 0
    restarts: int = 0
    waits_until: datetime | None = None
    used: Amounts = Amounts()
    ip: str = ""
    ports: tuple[Port, ...] = ()
    created: datetime
    changed: datetime
    ended: datetime | None = None
    last_event: int = 0

    @property
    def is_over(self) -> bool:
        return self.phase in OVER


class InstanceEvent(Frozen):
    """A line of an instance's journal."""

    number: int
    """From 1, without gaps."""
    time: datetime
    phase: Phase
    says: str = ""
    node: str = ""
    incarnation: int = 0

    @property
    def last(self) -> bool:
        return self.phase in OVER


ID_LENGTH = 253
MOST_VARIABLES = 512
MOST_PORTS = 64
MOST_WORDS = 256
MOST_AMOUNT = 2**31 - 1


def check(spec: InstanceSpec) -> InstanceSpec:
    """The specification with every variable said once. Invalid, with everything that is wrong."""
    wrong = [*_of_names(spec), *_of_variables(spec.environment), *_of_ports(spec.ports)]
    for name, amount in (("cpu", spec.limit.cpu), ("memory", spec.limit.memory)):
        wrong += _of_amount(name, amount)
    wrong += _of_amount("disk", spec.limit.disk)
    wrong += [*_of_demands(spec.demands), *_of_probe(spec.probe)]
    if len(spec.command) > MOST_WORDS:
        wrong.append(Violation(field="command", description=f"more than {MOST_WORDS} words"))
    if wrong:
        first = wrong[0]
        raise Invalid(
            f"{first.field}: {first.description}",
            subject=spec.id,
            reason="INSTANCE_INVALID",
            do="correct what is named and ask again: nothing was reserved",
            violations=wrong,
        )
    return spec.model_copy(update={"environment": _last_of_each(spec.environment)})


def no_limit(name: str) -> Invalid:
    """What a request is told that says nothing of how much it may take."""
    at = "resource.limit"
    return Invalid(
        f"{at}: is required",
        subject=name,
        reason="INSTANCE_INVALID",
        do="say how much cpu, memory and disk it may take; 0 is an answer",
        violations=[Violation(field=at, description="is required")],
    )


def _of_names(spec: InstanceSpec) -> Iterable[Violation]:
    if not spec.id or len(spec.id) > ID_LENGTH or not spec.id.isprintable() or "/" in spec.id:
        said = f"1 to {ID_LENGTH} printable characters without a slash"
        yield Violation(field="id", description=f"has to be {said}")
    if not is_owner(spec.owner):
        yield Violation(field="owner", description=f"has to be {OWNER_RULE}")
    if not spec.uri or not spec.uri.isprintable():
        yield Violation(field="uri", description="is required: the image that is to run")


def _of_variables(variables: Sequence[str]) -> Iterable[Violation]:
    if len(variables) > MOST_VARIABLES:
        yield Violation(field="environment", description=f"more than {MOST_VARIABLES} variables")
    for index, variable in enumerate(variables[:MOST_VARIABLES]):
        key, equals, _ = variable.partition("=")
        if not key or not equals or "\x00" in variable:
            said = f"{variable[:64]!r} is not KEY=VALUE"
            yield Violation(field=f"environment[{index}]", description=said)


def _of_ports(ports: Sequence[Port]) -> Iterable[Violation]:
    if len(ports) > MOST_PORTS:
        yield Violation(field="ports", description=f"more than {MOST_PORTS} ports")
    taken: set[int] = set()
    for index, port in enumerate(ports[:MOST_PORTS]):
        if not 0 <= port.source <= 65535:
            said = f"{port.source} is no port; 0 is any that is free"
            yield Violation(field=f"ports[{index}].source", description=said)
        elif port.source in taken:
            said = f"{port.source} is asked for twice"
            yield Violation(field=f"ports[{index}].source", description=said)
        if not 1 <= port.destination <= 65535:
            said = f"{port.destination} is no port"
            yield Violation(field=f"ports[{index}].destination", description=said)
        if port.source:
            taken.add(port.source)


def _of_amount(name: str, amount: int) -> Iterable[Violation]:
    if not 0 <= amount <= MOST_AMOUNT:
        said = f"{amount} is not between 0 and {MOST_AMOUNT}"
        yield Violation(field=f"resource.limit.{name}", description=said)


def _of_demands(demands: Demands) -> Iterable[Violation]:
    for field in ("constraints", "affinity"):
        labels: tuple[str, ...] = getattr(demands, field)
        for index, label in enumerate(labels):
            if not label.partition("=")[0].removesuffix("!") or "=" not in label:
                said = f"{label[:64]!r} is neither KEY=VALUE nor KEY!=VALUE"
                yield Violation(field=f"{field}[{index}]", description=said)
    if (demands.spread_by or demands.most_per_node) and not demands.workload:
        yield Violation(field="workload", description="is required: whose copies are counted")
    if demands.most_per_node < 0:
        yield Violation(field="most_per_node", description=f"{demands.most_per_node} is below 0")


def _of_probe(probe: Probe | None) -> Iterable[Violation]:
    if probe is None:
        return
    if [bool(probe.command), bool(probe.http), bool(probe.tcp)].count(True) != 1:
        said = "has to be exactly one of command, http and tcp"
        yield Violation(field="probe", description=said)
    said_port = re.fullmatch(r":(\d{1,5})/\S*", probe.http)
    if probe.http and not (said_port and 1 <= int(said_port[1]) <= 65535):
        yield Violation(field="probe.http", description=f"{probe.http[:64]!r} is not :PORT/PATH")
    if not 0 <= probe.tcp <= 65535:
        yield Violation(field="probe.tcp", description=f"{probe.tcp} is no port")
    if probe.interval_seconds <= 0 or probe.timeout_seconds <= 0 or probe.retries <= 0:
        said = "interval, timeout and retries have to be more than 0"
        yield Violation(field="probe", description=said)


def _last_of_each(variables: Sequence[str]) -> tuple[str, ...]:
    """Each key once, with what was said of it last, where it was said first."""
    said = {variable.partition("=")[0]: variable for variable in variables}
    return tuple(said.values())
