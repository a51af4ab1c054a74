"""What is recorded of instances on nodes."""

from collections.abc import Awaitable, Callable

from domain.instance import Call
from protos.gen.agent import instance_pb2 as agent_pb2
from tests.store.desk import until
from tests.workflows.harbour import Harbour, asked
from tests.workflows.test_instances import LIFE, RUNS


async def ran_and_was_moved(place: Harbour) -> None:
    """A life with a stop, a crash and a drained node."""
    first = await place.host("a")
    listener = place.create(asked())
    await listener.until(*RUNS)
    await place.ask(Call.STOP)
    await listener.until(*LIFE[:6])
    await place.ask(Call.START)
    await listener.until(*LIFE[:8])
    first.agent.copies["web-1"].say(agent_pb2.CRASHED, "exit 3")
    await listener.until(*LIFE[:8], *RUNS[2:])
    await place.host("b")
    await place.drain("a", seconds=3600)
    await place.rouse()
    await place.drained("a")
    await place.settled("web-1", "running")
    await place.ask(Call.DESTROY)
    await listener.end()


async def lost_and_cleaned(place: Harbour) -> None:
    """A node that refuses, one that is lost, and one that comes back."""
    refusing = await place.host("a")
    refusing.agent.refuses = True
    lost = await place.host("b", cpu=95)
    listener = place.create(asked())
    await listener.until(*RUNS[:2], *RUNS)
    refusing.agent.refuses = False
    await place.lose(lost, killing=False)
    await listener.until(*RUNS[:2], *RUNS, *RUNS)
    await lost.up()
    await until(lambda: not lost.agent.copies)
    refusing.agent.copies["web-1"].say(agent_pb2.TERMINATED, "exit 0")
    await place.settled("web-1", "starting")
    await place.ask(Call.DESTROY)
    await listener.end()


ON_NODES: dict[str, Callable[[Harbour], Awaitable[None]]] = {
    "ran-and-was-moved": ran_and_was_moved,
    "lost-and-cleaned": lost_and_cleaned,
}
