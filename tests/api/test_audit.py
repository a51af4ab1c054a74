"""The audit trail names what calls are about, what they had run and which secrets were read."""

import asyncio

import grpc
import pytest
import yaml

from api.access import PERMISSIONS
from api.audit_folds import SEVERAL, SUBJECTS_APART, Folds
from domain.audit import Deed
from domain.cluster import Phase
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.exec_pb2_grpc import ExecApiStub
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.ops import access_pb2 as ops
from protos.gen.ops.access_pb2_grpc import AuditStub, TokensStub
from protos.gen.ops.instances_pb2 import ExecInstanceRequest
from protos.gen.ops.instances_pb2_grpc import InstancesStub
from store.rows import now
from tests.api.caller import Caller, refused, wanted
from tests.api.closed import Closed
from tests.api.edge import stubs
from tests.api.hands import Hands
from tests.api.signed import bearer
from tests.api.test_closed_doors import contracts
from tests.api.test_clusters import kept_kubeconfig
from tests.support.load import limit


def test_every_method_that_runs_a_command_says_which() -> None:
    pool = contracts()
    for method, asked in PERMISSIONS.items():
        service, _, name = method.partition("/")
        if method.startswith("grpc.") or not asked.changes:
            continue
        fields = pool.FindServiceByName(service).methods_by_name[name].input_type.fields_by_name
        assert not asked.command or asked.command == "command"
        assert ("Exec" in method) is ("command" in fields and asked.command == "command"), method


async def lines(closed: Closed, method: str) -> list[ops.AuditLine]:
    """What the trail has of a method."""
    asked = ops.ListAuditRequest(page_size=1000)
    admin = bearer(closed.tokens["ada"])
    listed = await AuditStub(closed.channel).List(asked, metadata=admin, timeout=30)
    return [line for line in listed.lines if line.method.endswith(f"/{method}")]


async def test_commands_are_written_down_with_what_they_run_in(closed: Closed) -> None:
    token = bearer(closed.tokens["ole"])
    request = ExecRequest(app_inst_key=stubs.appinst().key, command="cat /etc/shadow")
    await refused(ExecApiStub(closed.channel).RunCommand(request, metadata=token, timeout=30))
    [line] = await lines(closed, "RunCommand")
    assert line.command == "cat /etc/shadow"
    assert stubs.appinst().key.app_key.name in line.subject.split("/")
    own = ExecInstanceRequest(id="i-1", command=["sh", "-c", "rm -rf /"])
    call = InstancesStub(closed.channel).Exec(own, metadata=token, timeout=30)
    with pytest.raises(grpc.aio.AioRpcError):
        await call.read()
    [line] = await lines(closed, "Exec")
    assert (line.subject, line.command) == ("i-1", "sh -c 'rm -rf /'")


async def test_a_token_of_ones_own_is_about_its_user(closed: Closed) -> None:
    stub = TokensStub(closed.channel)
    asked = ops.CreateTokenRequest(label="mine")
    await stub.Create(asked, metadata=bearer(closed.tokens["vic"]), timeout=30)
    [line] = await lines(closed, "Create")
    assert (line.user, line.subject) == ("vic", "vic")


async def test_giving_out_a_kubeconfig_is_written_down(caller: Caller, hands: Hands) -> None:
    audit = AuditStub(caller.channel)
    await caller.cluster.CreateCluster(wanted(), timeout=30)
    operation = await hands.begun()
    await caller.cluster.GetCluster(kaas.GetClusterMsg(name="hello"), timeout=30)
    assert not [
        line
        for line in (await audit.List(ops.ListAuditRequest(), timeout=30)).lines
        if line.method.endswith("GetCluster")
    ], "it was given none"
    await kept_kubeconfig(hands, operation)
    await hands.ended(Phase.RUNNING)
    for _ in range(3):
        reply = await caller.cluster.GetCluster(kaas.GetClusterMsg(name="hello"), timeout=30)
        assert yaml.safe_load(reply.cluster.kubeconfig)
    [line] = [
        line
        for line in (await audit.List(ops.ListAuditRequest(), timeout=30)).lines
        if line.method.endswith("GetCluster")
    ]
    assert (line.subject, line.code, line.count) == ("hello", "OK", 1)


async def test_refusals_that_repeat_are_counted(closed: Closed) -> None:
    before = len(await lines(closed, "CreateCluster"))
    stub = ClusterStub(closed.channel)
    token = bearer(closed.tokens["vic"])
    for _ in range(40):
        await refused(stub.CreateCluster(wanted("hello"), metadata=token, timeout=30))
    assert len(await lines(closed, "CreateCluster")) - before <= 2


def deed(subject: str = "", reason: str = "FORBIDDEN") -> Deed:
    return Deed(
        time=now(), user="vic", source="::1", method="a.B/C", subject=subject, reason=reason
    )


async def test_a_window_ends_with_a_line_that_has_the_number() -> None:
    written: list[Deed] = []
    ended = asyncio.Event()

    async def write(deed: Deed) -> None:
        written.append(deed)
        ended.set()

    folds = Folds(write)
    assert folds.take(deed(), 0.2) is not None
    assert [folds.take(deed(), 0.2) for _ in range(7)] == [None] * 7
    async with limit(30):
        await ended.wait()
    assert [each.count for each in written] == [7]
    await folds.close()
    assert len(written) == 1


async def test_who_thinks_up_subjects_writes_no_more_for_it() -> None:
    written: list[Deed] = []

    async def write(deed: Deed) -> None:
        written.append(deed)

    folds = Folds(write)
    first = [folds.take(deed(f"subject-{number}"), 60) for number in range(500)]
    told = [each for each in first if each is not None]
    assert len(told) == SUBJECTS_APART + 1
    assert told[-1].subject == SEVERAL
    await folds.close()
    assert [(each.subject, each.count) for each in written] == [(SEVERAL, 500 - len(told))]
