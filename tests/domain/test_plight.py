"""Why an instance is as it is."""

from datetime import UTC, datetime, timedelta
from typing import Any

from domain.instance import InstanceSpec, InstanceUid, InstanceView, Phase, Restart, Wish
from domain.node import NodePhase, NodeView
from domain.placement import Amounts, Verdict
from domain.plight import Plight, explain

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


def view(phase: Phase, **more: Any) -> InstanceView:
    spec = InstanceSpec(id="web", uri="builtin:idle", limit=Amounts(), restart=Restart.ALWAYS)
    said = {"spec": spec, "wish": Wish.RUN, "created": NOON, "changed": NOON, **more}
    return InstanceView(uid=InstanceUid("u"), id="web", phase=phase, **said)


def node(**more: Any) -> NodeView:
    said = {"phase": NodePhase.RUNNING, "heard": NOON, **more}
    return NodeView(id="a", pool="p", address="", subnet="", **said)


def told(plight: Plight) -> list[str]:
    return [cause.says for cause in explain(plight, NOON).causes]


def test_who_waits_says_for_what_and_how_much_each_node_lacks() -> None:
    verdicts = (Verdict(node="b", shortfalls=("is lost", "lacks 1 cpu")), Verdict(node="a"))
    waiting = view(Phase.SCHEDULING, says="waits", waits_until=NOON + timedelta(seconds=4))
    plight = Plight(view=waiting, verdicts=verdicts[:1])
    assert told(plight) == [
        "instance web is scheduling",
        "waits",
        "it is gone on with in 4 s",
        "node b is lost, lacks 1 cpu",
    ]
    assert explain(plight, NOON).advice[0].command == "windlass node list"
    assert len(told(Plight(view=view(Phase.SCHEDULING), verdicts=verdicts))) == 1


def test_who_runs_says_what_its_node_lacks() -> None:
    on_a = view(Phase.RUNNING, node="a", restarts=2)
    assert told(Plight(view=on_a, node=node(suspect=True, draining=True))) == [
        "instance web is running on a, restarted 2 times in a row",
        "node a has not been heard of for a while",
        "node a is being drained",
    ]
    lost = node(phase=NodePhase.LOST, says="silent")
    assert told(Plight(view=on_a, node=lost))[1] == "node a is lost: silent"
    [advice] = explain(Plight(view=on_a, node=node(suspect=True)), NOON).advice
    assert not advice.command


def test_copies_that_were_left_are_told_and_what_is_over_can_be_made_again() -> None:
    left = (("a", NodePhase.LOST), ("b", NodePhase.RUNNING))
    over = view(Phase.FAILED, ended=NOON)
    assert told(Plight(view=over, leftovers=left))[1:] == [
        "an older copy on node a, which is lost, is removed once it is back",
        "an older copy on node b, which is running, is removed now",
    ]
    assert not explain(Plight(view=over), NOON).advice
    spec = over.spec.model_copy(update={"restart": Restart.NEVER})
    single = over.model_copy(update={"spec": spec})
    assert "create web" in explain(Plight(view=single), NOON).advice[0].command
    stopped = explain(Plight(view=view(Phase.STOPPED)), NOON).advice
    assert stopped[0].command == "windlass instance start web"
