"""How an operation looks: as a picture that stands in one place, or as lines that pile up.

Everything here is a function of what is known and of the time. Nothing is asked or printed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cli.printing import STYLES, tame
from protos.gen.ops import operations_pb2 as pb

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree

ENDED = frozenset({pb.SUCCEEDED, pb.FAILED, pb.CANCELLED, pb.SUPERSEDED})
OPEN_STATES = frozenset({pb.ACTIVE, pb.STUMBLED})

MARKS: dict["pb.StepState.ValueType", tuple[str, str]] = {
    pb.STEP_STATE_UNSPECIFIED: ("?", "dim"),
    pb.PENDING: ("·", "dim"),
    pb.ACTIVE: ("●", "cyan"),
    pb.DONE: ("✓", "green"),
    pb.STUMBLED: ("!", "yellow"),
}
WORDS: dict["pb.StepState.ValueType", str] = {
    pb.STEP_STATE_UNSPECIFIED: "",
    pb.PENDING: "planned",
    pb.ACTIVE: "began",
    pb.DONE: "done",
    pb.STUMBLED: "stumbled",
}

BAR_WIDTH = 30
LISTED = 4
"""So many subjects that are done, or not begun, get a line each; of more there is only a count."""
OPEN_LISTED = 12
"""So many subjects under way are shown, so that the picture fits on a screen."""


@dataclass
class View:
    """An operation as far as we have heard of it."""

    operation: pb.Operation
    steps: list[pb.Step] = field(default_factory=list)
    lost: str = ""
    """Why we do not hear of it at the moment. Empty: we do."""

    @classmethod
    def of(cls, operation: pb.Operation) -> "View":
        return cls(operation, list(operation.steps))

    def hear(self, event: pb.OperationEvent) -> None:
        """Take in an event. Hearing one twice changes nothing."""
        self.lost = ""
        if event.HasField("operation"):
            self.operation = event.operation
        if event.HasField("step"):
            self._place(event.step)

    def _place(self, step: pb.Step) -> None:
        for index, known in enumerate(self.steps):
            if _key(known) == _key(step):
                self.steps[index] = step
                return
        self.steps.append(step)


def render(view: View, now: datetime, *, everything: bool = False) -> "RenderableType":
    """The picture. Unless everything is asked for, what is done or not begun takes little room."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(_heading(view, now), guide_style="dim")
    groups = _by_subject(view.steps)
    if everything:
        for subject, steps in groups.items():
            branch = tree.add(_subject(subject, steps))
            for step in steps:
                branch.add(_step(step, now))
        return tree
    done = {name: steps for name, steps in groups.items() if _all(steps, pb.DONE)}
    planned = {name: steps for name, steps in groups.items() if _all(steps, pb.PENDING)}
    under_way = [name for name in groups if name not in done and name not in planned]
    _summary(tree, done, pb.DONE, "done", now)
    for name in under_way[:OPEN_LISTED]:
        text = _subject(name, groups[name])
        for step in groups[name]:
            if step.state in OPEN_STATES:
                text.append("  ").append_text(_step(step, now))
        tree.add(text)
    if len(under_way) > OPEN_LISTED:
        tree.add(Text(f"and {len(under_way) - OPEN_LISTED} more under way", style="dim"))
    _summary(tree, planned, pb.PENDING, "not begun", now)
    return tree


def line(event: pb.OperationEvent) -> str:
    """An event as a line of a log: when, how far, about what, and what happened."""
    time = event.time.ToDatetime(UTC).astimezone()
    about, said = event.operation.subject, event.note
    if event.HasField("step"):
        about, said = event.step.subject, _sentence(event.step)
    return tame(f"{time:%H:%M:%S}  {event.operation.percent:>3} %  {about}  {said}")


def verdict(operation: pb.Operation) -> str:
    """How it ended, as the end of a sentence."""
    took = duration(elapsed(operation, datetime.now(UTC)))
    left = f", {len(operation.left_behind)} left behind" if operation.left_behind else ""
    stage = pb.Stage.Name(operation.stage).lower()
    return f"{operation.kind} {operation.subject} {stage} in {took}{left}"


def elapsed(thing: "pb.Operation | pb.Step", now: datetime) -> timedelta:
    """How long it has taken so far. Never negative, whatever the clocks say."""
    if not thing.HasField("started"):
        return timedelta()
    end = thing.ended.ToDatetime(UTC) if thing.HasField("ended") else now
    return max(end - thing.started.ToDatetime(UTC), timedelta())


def duration(span: timedelta) -> str:
    """A span as people say it: 4.1 s, 2 m 10 s, 1 h 05 m."""
    seconds = span.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def _heading(view: View, now: datetime) -> "Text":
    from rich.text import Text

    operation = view.operation
    stage = pb.Stage.Name(operation.stage)
    text = Text.assemble(
        (tame(f"{operation.kind} {operation.subject}"), "bold"),
        "  ",
        (stage, STYLES.get(stage, "")),
    )
    if operation.cancel_requested and operation.stage not in ENDED:
        text.append("  cancelling", style="yellow")
    if operation.paused_by:
        text.append(f"  paused by {tame(operation.paused_by)}", style="yellow")
    filled = BAR_WIDTH * operation.percent // 100
    text.append("\n" + "━" * filled, style=STYLES.get(stage, "cyan"))
    text.append("─" * (BAR_WIDTH - filled), style="dim")
    text.append(f"  {operation.percent} %  {duration(elapsed(operation, now))}")
    if operation.HasField("eta") and operation.stage not in ENDED:
        text.append(f"  about {duration(operation.eta.ToTimedelta())} left", style="dim")
    if operation.waiting_on and operation.stage not in ENDED:
        text.append(f"\nwaits for: {tame(operation.waiting_on)}", style="yellow")
    if operation.gate:
        until = operation.gate_until.ToDatetime(UTC).astimezone()
        said = f"waits for {operation.gate} to be approved, until {until:%Y-%m-%d %H:%M}"
        text.append(f"\n{tame(said)}", style="yellow")
    for left in operation.left_behind:
        metal = f" {left.hostname} ({left.system_id})" if left.system_id else ""
        marked = f", marked {left.agent_name}" if left.agent_name else ""
        text.append(
            "\n" + tame(f"left behind: {left.node}{metal}{marked}: {left.why}"), style="red"
        )
    if operation.HasField("failure"):
        failure = operation.failure
        text.append(f"\n{tame(failure.kind)}: {tame(failure.message)}", style="red")
    if view.lost:
        text.append(f"\n{tame(view.lost)}", style="yellow")
    return text


def _subject(subject: str, steps: list[pb.Step]) -> "Text":
    """A subject and how much of it is done."""
    from rich.text import Text

    done = sum(step.state == pb.DONE for step in steps)
    return Text.assemble((tame(subject), "bold"), (f"  {done}/{len(steps)}", "dim"))


def _step(step: pb.Step, now: datetime) -> "Text":
    from rich.text import Text

    mark, style = MARKS[step.state]
    text = Text.assemble((mark, style), " ", tame(_verb(step)))
    if step.HasField("started"):
        text.append(f"  {duration(elapsed(step, now))}", style="dim")
    if step.attempts > 1:
        text.append(f"  attempt {step.attempts}", style="yellow")
    if step.note and step.state != pb.DONE:
        text.append(f"  {tame(step.note)}", style="yellow")
    return text


def _summary(
    tree: "Tree",
    groups: dict[str, list[pb.Step]],
    state: "pb.StepState.ValueType",
    word: str,
    now: datetime,
) -> None:
    from rich.text import Text

    mark, style = MARKS[state]
    if len(groups) > LISTED:
        tree.add(Text.assemble((mark, style), f" {len(groups)} {word}"))
        return
    for subject, steps in groups.items():
        text = Text.assemble((mark, style), f" {tame(subject)}")
        if spans := [elapsed(step, now) for step in steps if step.HasField("ended")]:
            text.append(f"  {duration(sum(spans, timedelta()))}", style="dim")
        tree.add(text)


def _sentence(step: pb.Step) -> str:
    """What happened to a step."""
    said = f"{_verb(step)} {WORDS[step.state]}"
    if step.attempts > 1:
        said += f", attempt {step.attempts}"
    if step.state == pb.DONE and step.HasField("started"):
        said += f" ({duration(elapsed(step, datetime.now(UTC)))})"
    if step.note and step.state != pb.DONE:
        said += f": {step.note}"
    return said


def _verb(step: pb.Step) -> str:
    verb = f"undo {step.verb}" if step.undo else step.verb
    return f"{verb} #{step.turn}" if step.turn > 1 else verb


def _key(step: pb.Step) -> tuple[bool, str, str, int]:
    return step.undo, step.verb, step.subject, step.turn


def _by_subject(steps: Iterable[pb.Step]) -> dict[str, list[pb.Step]]:
    groups: dict[str, list[pb.Step]] = {}
    for step in steps:
        groups.setdefault(step.subject, []).append(step)
    return groups


def _all(steps: list[pb.Step], state: "pb.StepState.ValueType") -> bool:
    return all(step.state == state for step in steps)
