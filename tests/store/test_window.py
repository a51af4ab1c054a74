"""What nodes reported, as it is kept."""

from domain.logline import Chunk
from domain.pod import Pod, PodState
from domain.report import Item, LogPiece, Report
from store.engine import Database
from store.window import LAST_CHUNKS, FleetWindow
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


async def test_a_log_is_read_from_its_end_page_by_page(database: Database) -> None:
    dock, window = Dock(database), FleetWindow(database, log_bytes=10**6)
    await dock.node("a")
    written = [Chunk(offset=10 * each, lines=b"%09d\n" % each) for each in range(20)]
    items = [
        Item(number=number, what=LogPiece(pod="p", app="app", chunk=chunk))
        for number, chunk in enumerate(written, 2)
    ]
    pod = Item(number=1, what=Pod(id="p", state=PodState.RUNNING))
    await window.take(Report(node="a", epoch="e", items=(pod, *items)))
    found: list[Chunk] = []
    while page := await window.log_end("p", "app", found[0].offset if found else None):
        assert len(page) <= LAST_CHUNKS
        found = [*page, *found]
    assert found == written
    assert list(await window.log_end("p", "app", 30)) == written[:3]
    assert list(await window.log_end("p", "other", None)) == []
    await dock.close()
    await window.close()
