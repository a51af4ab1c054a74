"""The scheduler and agents whose ports are encrypted, each as it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from agent.simulated import Simulated
from agent.whole import Agent, Plan
from api.kudo.certificates import shown
from api.kudo.nodes import UNPROVEN
from api.tls import Files
from domain.instance import Call
from domain.metadata import ADDRESS, ENCRYPTED
from domain.placement import Amounts
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from tests.agent.certificates import made
from tests.store.desk import until
from tests.workflows.harbour import Harbour, asked
from tests.workflows.test_instances import LIFE, RUNS, Opening, opened

__all__ = ["opened"]

SOON_SECONDS = 3.0


@asynccontextmanager
async def node(place: Harbour, tls: Files, home: Path) -> AsyncIterator[tuple[Agent, str]]:
    """A node of ours that speaks TLS, and where its agent listens."""
    channel = grpc.aio.insecure_channel(place.address)
    plan = Plan(
        node="n1",
        folder=home / "state",
        certificate=tls.certificate.read_text(),
        tls=tls,
        has=Amounts(cpu=1000, memory=1000, disk=100),
        grace_seconds=1,
    )
    agent = Agent(plan, Simulated(folder=home.parent), channel)
    address = await agent.start()
    try:
        yield agent, address
    finally:
        await agent.stop()
        await channel.close()


async def healthy(channel: grpc.aio.Channel) -> None:
    await HealthStub(channel).Check(  # type: ignore[attr-defined]
        HealthCheckRequest(), timeout=SOON_SECONDS
    )


async def test_a_life_on_an_agent_that_speaks_tls(opened: Opening, tmp_path: Path) -> None:
    tls = made(tmp_path / "certs", "n1")
    async with (
        opened(bare_tokens=False) as place,
        node(place, tls, tmp_path / "n1") as (agent, address),
    ):
        await agent.registered.wait()
        await place.takes_work("n1")
        listener = place.create(asked(environnement=["A=b=c"]))
        await listener.until(*RUNS)
        output = await place.api._agents.execute("n1", address, "web-1", ["echo", "hi"], 5)
        assert output.stdout == b"hi\n"
        await place.ask(Call.STOP)
        await listener.until(*LIFE[:6])
        await place.ask(Call.START)
        await listener.until(*LIFE[:8])
        await place.ask(Call.DESTROY)
        assert await listener.end() == LIFE
        await until(lambda: not agent.instances.held())

        async with grpc.aio.insecure_channel(address) as clear:
            with pytest.raises(grpc.aio.AioRpcError):
                await healthy(clear)


async def refused(place: Harbour, certificate: str, *beside: tuple[str, str]) -> tuple[int, str]:
    """How a registration ends that must not succeed."""
    request = pb.NodeRegisterRequest(certificate=certificate)
    stub = NodeServiceStub(place.channel)
    answer = await stub.Register(request, metadata=beside, timeout=20)
    return answer.code, answer.description


async def test_whoever_has_the_certificate_and_not_its_key_is_not_the_node(
    opened: Opening, tmp_path: Path
) -> None:
    """A certificate is no secret: it is shown to whoever connects."""
    ours, theirs = made(tmp_path / "ours", "n1"), made(tmp_path / "theirs", "n1")
    async with opened() as place, node(place, theirs, tmp_path / "n1") as (agent, address):
        await agent.registered.wait()
        at, encrypted = (ADDRESS, address), (ENCRYPTED, "true")
        assert await refused(place, ours.certificate.read_text(), at, encrypted) == (
            1,
            f"no agent that holds the key of its certificate answers at {address}",
        )
        assert await refused(place, theirs.certificate.read_text(), at) == (
            2,
            "node n1 has spoken TLS and does not any more",
        )


async def test_a_certificate_that_is_sent_along_proves_nothing(
    opened: Opening, tmp_path: Path
) -> None:
    """Or whoever appends one of their own holds the key of a certificate that is trusted."""
    ours, theirs = made(tmp_path / "ours", "n1"), made(tmp_path / "theirs", "n1")
    both = ours.certificate.read_text() + theirs.certificate.read_text()
    leaf = shown(both, bare_tokens=False).certificate
    assert leaf == ours.certificate.read_text().strip()
    async with opened() as place, node(place, theirs, tmp_path / "n1") as (agent, address):
        await agent.registered.wait()
        assert await refused(place, both, (ADDRESS, address), (ENCRYPTED, "true")) == (
            1,
            f"no agent that holds the key of its certificate answers at {address}",
        )


async def test_without_bare_tokens_a_node_has_to_prove_its_key(
    opened: Opening, tmp_path: Path
) -> None:
    pem = made(tmp_path / "certs", "n1").certificate.read_text()
    async with opened(bare_tokens=False) as place:
        assert await refused(place, pem, (ADDRESS, "127.0.0.1:1")) == (2, UNPROVEN)
        code, says = await refused(place, "n1", (ADDRESS, "127.0.0.1:1"), (ENCRYPTED, "true"))
        assert (code, "no PEM certificate" in says) == (2, True)
