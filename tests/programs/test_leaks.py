"""What is secret is in no file of the database and in no log. `make reliability T=leaks` looks at a
whole installation."""

import base64
import secrets
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from cli.calling import opened
from protos.gen.koor.api.services.auth.auth_pb2 import LoginRequest
from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceStub
from protos.gen.ops import access_pb2 as pb
from protos.gen.ops import instances_pb2
from protos.gen.ops.access_pb2_grpc import TokensStub, UsersStub
from protos.gen.ops.instances_pb2_grpc import InstancesStub
from store import schema
from store.engine import Database
from store.passwords import Passwords
from store.users import Users
from tests.api.caller import NOBODY
from tests.leaks import forms, found, pieces, written
from tests.programs.running import running, surroundings, told

SECRET = b"Wx+q/3kZ~pL9vR2t"


@pytest.mark.parametrize("before", range(4))
def test_a_secret_is_found_in_every_form(before: int) -> None:
    whole = b"x" * before + SECRET + b"yz"
    for form in (
        whole,
        whole.hex().encode(),
        whole.hex().upper().encode(),
        base64.b64encode(whole),
        base64.urlsafe_b64encode(whole),
    ):
        assert any(each in form for each in forms(SECRET)), form


def test_it_is_not_found_where_it_is_not() -> None:
    other = b"Wx+q/3kZ~pL9vRzz"
    for form in (other, other.hex().encode(), base64.b64encode(other)):
        assert not any(each in form for each in forms(SECRET))
    assert found({"a": SECRET}, {"here": b"-" + SECRET, "there": other}) == ["a is in here"]


def test_of_a_key_its_private_half_is_looked_for() -> None:
    lines = [bytes([letter]) * 70 for letter in b"ABCD"]
    pem = b"-----BEGIN PRIVATE KEY-----\n" + b"\n".join(lines) + b"\n-----END PRIVATE KEY-----\n"
    assert list(pieces(pem)) == lines[2:]


@pytest.mark.timeout(150)  # a program of ours has to start first
async def test_nothing_secret_is_written_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database, passwords = Database(url), Passwords()
    known = {name: secrets.token_urlsafe(18) for name in ("password", "wrong", "other", "variable")}
    await Users(database).begin("walnut", await passwords.hashed(known["password"]))
    passwords.close()
    environment = surroundings(
        WINDLASS_DATABASE=url,
        WINDLASS_KEY_FILE=str(tmp_path / "seal.key"),
        WINDLASS_LOG_FORMAT="json",
        WINDLASS_LOG_LEVEL="debug",
        WINDLASS_AUTH__MODE="required",
        WINDLASS_GRPC_ADDRESS="127.0.0.1:0",
        WINDLASS_HTTP_ADDRESS="127.0.0.1:0",
        WINDLASS_TEMPORAL__ADDRESS=NOBODY,
    )
    async with running("-m", "api", environment=environment) as api:
        address = (await told(api, "ready"))["grpc"]
        async with opened(address) as channel:
            auth = AuthServiceStub(channel)
            with suppress(grpc.aio.AioRpcError):
                await auth.Login(LoginRequest(username="walnut", password=known["wrong"]))
            asked = LoginRequest(username="walnut", password=known["password"])
            known["session"] = (await auth.Login(asked)).token
        async with opened(address, known["session"]) as channel:
            user = pb.AddUserRequest(name="ole", role=pb.OPERATOR, password=known["other"])
            await UsersStub(channel).Add(user)
            made = await TokensStub(channel).Create(pb.CreateTokenRequest(label="ci"))
            known["token"] = made.secret
            order = instances_pb2.InstanceOrder(
                id="hazel", uri="builtin:idle", environment=[f"WORD={known['variable']}"]
            )
            order.limit.cpu, order.limit.memory, order.limit.disk = 10, 10, 1
            await InstancesStub(channel).Create(order)
        places = written(tmp_path, ["windlass.db*"])
        api.terminate()
        out, err = await api.communicate()
    await database.close()
    places |= {"out": out, "err": err}
    assert b"walnut" in b"".join(places.values()), "nothing was looked at"
    assert b"draining" in err
    assert found({name: said.encode() for name, said in known.items()}, places) == []
