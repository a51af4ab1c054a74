"""Why an instance is as it is, from the rows alone: causes, each deeper than what it causes, and
what to do now."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from domain.frozen import Frozen
from domain.instance import InstanceView, Phase, Restart, Wish
from domain.node import AWAY, NodePhase, NodeView
from domain.placement import Verdict
from domain.why import Advice, Cause

NEAREST = 5
"""So many nodes are told of that do not fit."""


class Plight(Frozen):
    """What is known of an instance and of what it hangs on."""

    view: InstanceView
    node: NodeView | None = None
    """The one it is on."""
    leftovers: tuple[tuple[str, NodePhase], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """What every node is to it now, if it is on none."""


class Reading(Frozen):
    """What there is to say."""

    causes: tuple[Cause, ...]
    advice: tuple[Advice, ...]


def explain(plight: Plight, now: datetime) -> Reading:
    return Reading(causes=tuple(_causes(plight, now)), advice=tuple(_advice(plight)))


def _causes(plight: Plight, now: datetime) -> Iterator[Cause]:
    view = plight.view
    about = f"instance/{view.id}"
    where = f" on {view.node}" if view.node else ""
    again = f", restarted {view.restarts} times in a row" if view.restarts else ""
    says = f"instance {view.id} is {view.phase}{where}{again}"
    yield Cause(about=about, says=says, since=view.changed, depth=0)
    if view.says:
        yield Cause(about=about, says=view.says, since=view.changed, depth=1)
    if view.waits_until is not None and view.waits_until > now:
        seconds = (view.waits_until - now).total_seconds()
        yield Cause(about=about, says=f"it is gone on with in {seconds:.0f} s", depth=1)
    if plight.node is not None:
        yield from _of_node(plight.node)
    for verdict in _nearest(plight):
        says = f"node {verdict.node} {', '.join(verdict.shortfalls)}"
        yield Cause(about=f"node/{verdict.node}", says=says, depth=1)
    for node, phase in plight.leftovers:
        when = "once it is back" if phase in AWAY else "now"
        says = f"an older copy on node {node}, which is {phase}, is removed {when}"
        yield Cause(about=f"node/{node}", says=says, depth=1)


def _of_node(node: NodeView) -> Iterator[Cause]:
    about = f"node/{node.id}"
    said = f": {node.says}" if node.says else ""
    if node.phase is not NodePhase.RUNNING:
        yield Cause(about=about, says=f"node {node.id} is {node.phase}{said}", depth=1)
    elif node.suspect:
        says = f"node {node.id} has not been heard of for a while"
        yield Cause(about=about, says=says, since=node.heard, depth=1)
    if node.draining:
        yield Cause(about=about, says=f"node {node.id} is being drained", depth=1)


def _nearest(plight: Plight) -> Sequence[Verdict]:
    """Those that lack the least. Whoever is on a node, or over for another reason, lacks none."""
    if plight.view.node or any(not verdict.shortfalls for verdict in plight.verdicts):
        return ()
    return sorted(plight.verdicts, key=lambda each: (len(each.shortfalls), each.node))[:NEAREST]


def _advice(plight: Plight) -> Iterator[Advice]:
    view = plight.view
    if view.phase is Phase.STOPPED:
        yield Advice(command=f"windlass instance start {view.id}", because="it was stopped")
    elif view.phase is Phase.FAILED and view.spec.restart is Restart.NEVER:
        because = "its id is free again; --restart on-failure has it run again by itself"
        yield Advice(command=f"windlass instance create {view.id} …", because=because)
    elif view.phase is Phase.SCHEDULING and view.wish is Wish.RUN and plight.verdicts:
        yield Advice(command="windlass node list", because="no node has room for it")
    elif plight.node is not None and plight.node.suspect:
        yield Advice(command="", because="its node answers again, or is given up for lost soon")
