"""What nodes reported, as it is kept."""

from domain.pod import Pod, PodState
from domain.report import Item, Report
from store.engine import Database
from store.window import FleetWindow
from tests.store.dock import Dock


async def test_a_pod_that_has_not_changed_is_the_same_one_also_while_its_node_is_away(
    database: Database,
) -> None:
    """What is shown of it is kept for as long: a list of thousands is made of what was made."""
    dock, window = Dock(database), FleetWindow(database, log_bytes=10**6)
    await dock.node("a")
    pod = Pod(id="p", state=PodState.RUNNING)
    await window.take(Report(node="a", epoch="e", items=(Item(number=1, what=pod),)))
    (there,) = await window.pods()
    await dock.nodes.unregister("a")
    (first,), (second,) = await window.pods(), await window.pods()
    assert (there.state, first.state) == (PodState.RUNNING, PodState.UNDEFINED)
    assert first is second
    await dock.close()
    await window.close()
