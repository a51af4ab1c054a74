"""A run with secrets of every kind in it, and then a search for each of them, wherever anything was
written: Temporal's database and histories, our database, every log. None may be found.

What is no secret has to be found there, so that an empty place is not taken for a clean one."""

import asyncio
import json
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import grpc
import grpc.aio
from sqlalchemy import select

from cli.calling import opened
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.koor.api.services.auth.auth_pb2 import LoginRequest, LogoutRequest
from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceStub
from protos.gen.ops import access_pb2 as ops
from protos.gen.ops import instances_pb2, operations_pb2, secrets_pb2
from protos.gen.ops.access_pb2_grpc import TokensStub, UsersStub
from protos.gen.ops.instances_pb2_grpc import InstancesStub
from protos.gen.ops.operations_pb2_grpc import OperationsStub
from protos.gen.ops.secrets_pb2_grpc import SecretsStub
from store import keys
from store.engine import Database
from store.passwords import Passwords
from store.rows import SecretRow
from store.sealing import Seal
from store.secrets import CHOSEN, Secrets
from store.users import Users
from tests.leaks import SHORTEST, found, written
from tests.reliability.installation import Installation, installed
from tests.reliability.outcome import Outcome
from tests.support.load import limit

CLUSTER, INSTANCE, NEXT_KEY = "walnut", "hazel", "next"
WAIT_SECONDS, LOOK_SECONDS = 180.0, 0.3
FILES = ("windlass.db*", "temporal.db*", "*.log")
PUBLIC = "/host-key/"
"""Lies in the vault, and is none."""


async def on_sqlite(seed: int) -> Outcome:
    return await _drill("leaks", seed, postgres=False)


async def on_postgresql(seed: int) -> Outcome:
    return await _drill("leaks-postgresql", seed, postgres=True)


async def _drill(name: str, seed: int, *, postgres: bool) -> Outcome:
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed(machines=4, draw=draw, postgres=postgres) as there:
        there.said_besides = {
            "AUTH__MODE": "required",
            "LOG_LEVEL": "debug",
            "CEPH__URLS": json.dumps([f"{there.site}/ceph"]),
        }
        await there.start("temporal", "site", "api", "worker-1")
        began = monotonic()
        run = Run(there)
        await run.live()
        places = await run.places()
        leaks = found(run.known, places)
        blind = [
            f"{word} is not in {place}: nothing was looked at"
            for place, word in run.expected.items()
            if word.encode() not in places.get(place, b"")
        ]
        there.keeps_logs = bool(leaks or blind)
        figures = {
            "seed": seed,
            "seconds": round(monotonic() - began, 1),
            "secrets": len(run.known),
            "places": {place: len(said) for place, said in places.items()},
        }
        return Outcome(name, figures, [*leaks, *blind])


class Run:
    """Somebody who does all that has to do with secrets, and remembers each."""

    def __init__(self, there: Installation) -> None:
        self._there = there
        self._database = Database(there.database)
        self._key_file = there.folder / "seal.key"
        self.known: dict[str, bytes] = {}
        self.expected = {
            "our database": CLUSTER,
            "api.log": "ready",
            "histories": "encryption-key-id",
        }
        """What is in a place that was looked at."""

    async def live(self) -> None:
        token = await self._signed_in()
        agent = await self._people(token)
        await self._there.start_agent("n1", agent)
        async with opened(self._there.grpc, token) as channel:
            await self._cluster(channel)
            await self._instance(channel)
            await self._rotated(channel)
        await self._vault()
        for name in ("maas.key", "ceph.password"):
            self.known[name] = (self._there.folder / name).read_bytes().strip()
        await self._database.close()

    def _new(self, name: str) -> str:
        """Another secret, which whoever wants may write in whatever form."""
        said = secrets.token_urlsafe(24)
        self.known[name] = said.encode()
        return said

    async def _signed_in(self) -> str:
        password, passwords = self._new("administrator's password"), Passwords()
        await Users(self._database).begin("admin", await passwords.hashed(password))
        passwords.close()
        async with grpc.aio.insecure_channel(self._there.grpc) as channel:
            auth = AuthServiceStub(channel)
            guess = LoginRequest(username="admin", password=self._new("wrong password"))
            with suppress(grpc.aio.AioRpcError):
                await auth.Login(guess)
            reply = await auth.Login(LoginRequest(username="admin", password=password))
        self.known["session"] = reply.token.encode()
        async with opened(self._there.grpc, self._new("made-up token")) as channel:
            with suppress(grpc.aio.AioRpcError):
                await UsersStub(channel).WhoAmI(ops.WhoAmIRequest())
        return str(reply.token)

    async def _people(self, token: str) -> str:
        """Users with passwords and tokens. The token for an agent is returned."""
        async with opened(self._there.grpc, token) as channel:
            users, tokens = UsersStub(channel), TokensStub(channel)
            old, new = self._new("first password"), self._new("second password")
            await users.Add(ops.AddUserRequest(name="ole", role=ops.OPERATOR, password=old))
            await users.SetPassword(ops.SetPasswordRequest(name="ole", password=new))
            await users.Add(ops.AddUserRequest(name="agent-1", role=ops.AGENT))
            asked = ops.CreateTokenRequest(user="agent-1", label="node")
            made = await tokens.Create(asked)
            self.known["agent's token"] = made.secret.encode()
            gone = await tokens.Create(ops.CreateTokenRequest(user="ole", label="revoked"))
            self.known["revoked token"] = gone.secret.encode()
            await tokens.Revoke(ops.RevokeTokenRequest(id=gone.token.id))
        async with grpc.aio.insecure_channel(self._there.grpc) as channel:
            auth = AuthServiceStub(channel)
            ole = await auth.Login(LoginRequest(username="ole", password=new))
            self.known["ended session"] = ole.token.encode()
        async with opened(self._there.grpc, ole.token) as channel:
            await AuthServiceStub(channel).Logout(LogoutRequest())
        return str(made.secret)

    async def _cluster(self, channel: grpc.aio.Channel) -> None:
        order = kaas.CreateClusterMsg(
            name=CLUSTER,
            control_plane_nodes=kaas.ControlPlaneMachineSpec(count=1),
            worker_node_pools=[kaas.MachineSpec(name="w", count=1)],
        )
        call = ClusterStub(channel).CreateCluster(order, metadata=(("windlass-storage", "true"),))
        await call
        trailers = {name: str(said) for name, said in await call.trailing_metadata()}
        operation = trailers["windlass-operation"].removeprefix("operations/")
        request = operations_pb2.GetOperationRequest(name=f"operations/{operation}")

        async def ended() -> bool:
            told = await OperationsStub(channel).Get(request)
            if told.failure.message:
                raise RuntimeError(told.failure.message)
            return bool(told.stage == operations_pb2.SUCCEEDED)

        await _until(ended)
        reply = await ClusterStub(channel).GetCluster(kaas.GetClusterMsg(name=CLUSTER))
        self.known["kubeconfig"] = reply.cluster.kubeconfig.encode()

    async def _instance(self, channel: grpc.aio.Channel) -> None:
        word, stub = self._new("variable"), InstancesStub(channel)
        order = instances_pb2.InstanceOrder(
            id=INSTANCE, uri="builtin:idle", environment=[f"PASSWORD={word}"]
        )
        order.limit.cpu, order.limit.memory, order.limit.disk = 10, 10, 1
        await _until(lambda: _went(stub.Create(order)))

        async def runs() -> bool:
            seen = await stub.Get(instances_pb2.GetInstanceRequest(id=INSTANCE))
            return bool(seen.status == "RUNNING")

        await _until(runs)

    async def _rotated(self, channel: grpc.aio.Channel) -> None:
        keys.add(self._key_file, NEXT_KEY)
        request = secrets_pb2.RotateKeyRequest(name=NEXT_KEY)
        async for _ in SecretsStub(channel).RotateKey(request):
            pass

    async def _vault(self) -> None:
        """Everything that lies sealed, and what it is sealed with."""
        vault = Secrets(self._database, Seal.from_file(self._key_file))
        async with self._database.session(writes=False) as session:
            names = (await session.scalars(select(SecretRow.reference))).all()
        for name in names:
            secret = await vault.open(name)
            if name != CHOSEN and PUBLIC not in name and len(secret) >= SHORTEST:
                self.known[name] = secret
        for name, key in keys.from_file(self._key_file).items():
            self.known[f"key {name}"] = key

    async def places(self) -> dict[str, bytes]:
        """All that was written, while the databases still run: SQLite's log is then full."""
        files = written(self._there.folder, FILES)
        client, histories = await self._there.client(), b""
        async for run in client.list_workflows():
            history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            histories += history.to_json().encode()
            histories += b"".join(event.SerializeToString() for event in history.events)
        ours = b"".join(said for name, said in files.items() if name.startswith("windlass.db"))
        if self._there.postgres is not None:
            ours = await self._there.postgres.dumped()
        return {**files, "our database": ours, "histories": histories}


async def _went(call: Any) -> bool:
    """Whether a call did not fail: it may be too early for it."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.ALREADY_EXISTS:
            return True
        if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
            raise
        return False
    return True


async def _until(there: Callable[[], Awaitable[bool]]) -> None:
    async with limit(WAIT_SECONDS):
        while not await there():  # noqa: ASYNC110 - over there
            await asyncio.sleep(LOOK_SECONDS)
