"""A server at which everybody has to sign in. One is enough for all tests that only knock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio

from api import build
from api.__main__ import Api
from api.launch import client
from domain.access import Principal, Role
from settings import Auth, Limits, Settings, Temporal, Tls
from store import schema
from store.engine import Database
from store.tokens import Tokens, digest_of
from store.users import Users
from tests.api.caller import NOBODY, read
from tests.api.signed import bearer, people


class Closed(NamedTuple):
    """A server at which everybody has to sign in, and some who have."""

    api: Api
    channel: grpc.aio.Channel
    address: str
    http: str
    tokens: dict[str, str]
    bad: dict[str, str]

    async def call(
        self, method: str, token: str | None, seconds: float = 30
    ) -> tuple[grpc.StatusCode, str]:
        """What an empty request is answered with: its code, and why."""
        calling: Any = self.channel.stream_stream(f"/{method}")
        given = None if token is None else bearer(token)
        call = calling(iter([b""]), metadata=given, timeout=seconds)
        try:
            await call.read()
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return error.code(), ""
            return error.code(), read(error).reason
        finally:
            call.cancel()
        return grpc.StatusCode.OK, ""


@asynccontextmanager
async def closed(
    folder: Path,
    tls: Tls | None = None,
    origins: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> AsyncIterator[Closed]:
    """It, with its state in a folder, for pages of these origins."""
    settings = Settings(
        state=folder,
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
        auth=Auth(mode="required"),
        tls=tls or Tls(),
        cors_origins=origins,
        limits=limits or Limits(),
    )
    await schema.upgrade(settings.database)
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    address, http = await api.start()
    database = Database(settings.database)
    tokens = await people(database)
    channel = grpc.aio.insecure_channel(address)
    yield Closed(api, channel, address, f"http://{http}", tokens, await no_good(database))
    await channel.close()
    await database.close()
    await api.stop()


async def no_good(database: Database) -> dict[str, str]:
    """Tokens that have ended, each in its way, of somebody who might do everything."""
    users, tokens = Users(database), Tokens(database)
    await users.add(Principal(name="gone", role=Role.ADMIN), "")
    hour = timedelta(hours=1)
    expired, _ = await tokens.issue("ada", lifetime=timedelta(0))
    revoked, _ = await tokens.issue("ada", lifetime=hour)
    await tokens.revoke(digest_of(revoked))
    disabled, _ = await tokens.issue("gone", lifetime=hour)
    await users.disable("gone", disabled=True)
    return {"expired": expired, "revoked": revoked, "disabled": disabled, "made up": "x" * 43}
