"""What an agent tells, as it really is, to an API as it really is."""

from pathlib import Path

from agent.archive import Archive
from agent.bell import Bell
from agent.ledger import Ledger
from agent.reporting import Reporting
from agent.shim import Log
from domain.pod import App, Pod, PodState
from protos.gen.rkt import api_pb2 as pb
from protos.gen.rkt.api_pb2_grpc import PublicAPIStub
from tests.api.caller import Caller
from tests.api.test_public import IMAGE, ONE, Node

LINES, LENGTH = 8000, 1000


async def test_a_burst_of_log_is_told_whole(caller: Caller, tmp_path: Path) -> None:
    """It is more than a server takes at once, and is there before anything of it was told."""
    node = await Node(caller).join()
    ledger = Ledger(None)
    archive = Archive(tmp_path / "logs", ledger, lambda: None, most_bytes=16 * 10**6)
    app = App(name="app", image=IMAGE)
    ledger.tell_pod(Pod(id=ONE, state=PodState.EXITED, apps=(app,)))
    log = Log(str(tmp_path / "log"))
    for number in range(LINES):
        log.take("stdout", f"{number} {'x' * LENGTH}\n".encode())
    archive.watch(ONE, tmp_path / "log")
    archive.finish(ONE)

    reporting = Reporting("n1", ledger, archive, Bell(), caller.channel, node.proof[1])
    while await reporting.tell():
        pass
    assert not ledger.letters(1)
    told = PublicAPIStub(caller.channel).GetLogs(pb.GetLogsRequest(pod_id=ONE), timeout=20)
    numbers = [int(line.split(" ", 2)[1]) async for message in told for line in message.lines]
    assert numbers == list(range(LINES))


async def test_one_item_goes_however_large_it_is(caller: Caller, tmp_path: Path) -> None:
    node = await Node(caller).join()
    ledger = Ledger(None)
    archive = Archive(tmp_path / "logs", ledger, lambda: None, most_bytes=10**6)
    for id in (ONE, "b"):
        ledger.tell_pod(Pod(id=id, state=PodState.EXITED, manifest="x" * 2 * 2**20))
    reporting = Reporting("n1", ledger, archive, Bell(), caller.channel, node.proof[1])
    assert [await reporting.tell() for _ in range(3)] == [1, 1, 0]
