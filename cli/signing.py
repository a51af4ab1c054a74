"""Signing in and out, and who may: commands of several groups."""

import os
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cli import contexts, documents
from cli.calling import Call, command, group
from cli.complaints import Code, Complaint
from cli.printing import Column, Document

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from protos.gen.ops import access_pb2, access_pb2_grpc

user = group("Who may sign in.")
token = group("Tokens for programs.")


class RoleName(StrEnum):
    """The roles, as they are typed."""

    VIEWER = "viewer"
    DEVELOPER = "developer"
    OPERATOR = "operator"
    ADMIN = "admin"
    AGENT = "agent"


PasswordFile: TypeAlias = Annotated[
    str,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read it there instead of asking; - is standard input.",
    ),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]

USERS = (
    Column("NAME", lambda it: it["name"]),
    Column("ROLE", lambda it: it["role"]),
    Column("DEVELOPER", lambda it: it["developer"]),
    Column("DISABLED", lambda it: "yes" if it["disabled"] else "no"),
    Column("CREATED", lambda it: documents.on_the_wall(it["created"])),
)
TOKENS = (
    Column("ID", lambda it: it["id"]),
    Column("USER", lambda it: it["user"]),
    Column("LABEL", lambda it: it["label"]),
    Column("EXPIRES", lambda it: documents.on_the_wall(it["expires"])),
    Column("USED", lambda it: documents.on_the_wall(it["used"])),
    Column("SOURCE", lambda it: it["source"], wide=True),
)


@command
async def login(
    call: Call,
    name: Name,
    password_file: PasswordFile = "",
    save_as: Annotated[
        str,
        typer.Option(
            "--save-as", metavar="CONTEXT", help="Under which name; else the context of now."
        ),
    ] = "",
) -> None:
    """Sign in, and stay so at this server.

    The token is remembered with the server's address.

    Commands that go there carry it from now on. It lies in contexts.json below ~/.config/windlass,
    or where WINDLASS_CONTEXTS says, in a file for nobody else to read."""
    from protos.gen.koor.api.services.auth.auth_pb2 import LoginRequest
    from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceStub

    asked = LoginRequest(username=name, password=_password(password_file))
    reply = await AuthServiceStub(call.channel).Login(asked, timeout=15)
    known = contexts.load()
    called = save_as or call.terms.profile or known.current
    files = [_lasting(file or "") for file in (call.ca, *call.pair)]
    mine = contexts.Context(call.address, call.http, name, reply.token, *files)
    known.having(called, mine).save()
    until = documents.on_the_wall(_time(reply.expires.timestamp))
    call.page.say(f"signed in at {call.address} as {name}, until {until} at the latest")


@command
async def logout(call: Call) -> None:
    """Sign out: the token is good for nothing then."""
    from protos.gen.koor.api.services.auth.auth_pb2 import LogoutRequest
    from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceStub

    if not call.token:
        call.page.say(f"nobody is signed in at {call.address}")
        return
    known = contexts.load()
    for name, each in known.known.items():
        if each.token == call.token:
            forgotten = {**known.known, name: replace(each, token="")}
            replace(known, known=forgotten).save()
    await AuthServiceStub(call.channel).Logout(LogoutRequest(), timeout=15)
    call.page.say(f"signed out at {call.address}")


@command
async def whoami(call: Call) -> None:
    """Show who the server takes us for."""
    from protos.gen.ops.access_pb2 import WhoAmIRequest

    reply = await call.ask(_users(call).WhoAmI, WhoAmIRequest())
    expires = _time(reply.expires) if reply.HasField("expires") else None
    document: Document = {
        "name": reply.name,
        "role": _role(reply.role),
        "developer": reply.developer,
        "expires": expires,
        "address": call.address,
    }
    call.page.one(document, reply.name, lambda: _introduced(document))


def _introduced(document: Document) -> str:
    if not document["name"]:
        return f"nobody: nobody has to sign in at {document['address']}"
    of = f" of {document['developer']}" if document["developer"] else ""
    until = f", until {documents.on_the_wall(document['expires'])}" if document["expires"] else ""
    return f"{document['name']}, {document['role']}{of}, at {document['address']}{until}"


@user.command("add")
@command
async def add(
    call: Call,
    name: Name,
    role: Annotated[
        RoleName, typer.Option("--role", help="What they are here for.")
    ] = RoleName.VIEWER,
    developer: Annotated[
        str, typer.Option("--developer", metavar="NAME", help="Whose objects are theirs.")
    ] = "",
    password: Annotated[
        bool, typer.Option("--password/--no-password", help="Without one they have tokens only.")
    ] = True,
    password_file: PasswordFile = "",
) -> None:
    """Let somebody sign in.

    A viewer reads, an operator changes whatever there is, an admin also says who may do what. A
    developer has what belongs to one developer at the edge, an agent is a program that reports."""
    from protos.gen.ops.access_pb2 import AddUserRequest, Role

    asked = AddUserRequest(name=name, role=Role.Value(role.value.upper()), developer=developer)
    if password:
        asked.password = _password(password_file, new=True)
    reply, _ = await call.change(_users(call).Add, asked)
    call.page.one(_user(reply), name, lambda: f"{name} may sign in, as {_role(reply.role)}")


@user.command("list")
@command
async def list_users(call: Call) -> None:
    """List who may sign in."""
    from protos.gen.ops.access_pb2 import ListUsersRequest

    reply = await call.ask(_users(call).List, ListUsersRequest())
    items = [_user(each) for each in reply.users]
    none = "there are no users: python -m store administrator makes the first"
    call.page.many(items, USERS, lambda it: str(it["name"]), none=none)


@user.command("passwd")
@command
async def passwd(
    call: Call,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose, if not one's own: for administrators.")
    ] = "",
    password_file: PasswordFile = "",
    old_password_file: Annotated[
        str,
        typer.Option("--old-password-file", metavar="FILE", help="Where the one of now is read."),
    ] = "",
) -> None:
    """Set a password, one's own or another's.

    Whoever is signed in with the old one is out, with the tokens that they made then. Tokens that
    an administrator made stay."""
    from protos.gen.ops.access_pb2 import SetPasswordRequest

    asked = SetPasswordRequest(name=name)
    if not name:
        asked.old_password = _password(old_password_file, asking="the password of now: ")
    asked.password = _password(password_file, new=True)
    await call.change(_users(call).SetPassword, asked)
    call.page.say("the password is changed")


@user.command("disable")
@command
async def disable(call: Call, name: Name) -> None:
    """Keep somebody out, at once, with every token they have."""
    await _set_disabled(call, name, disabled=True)


@user.command("enable")
@command
async def enable(call: Call, name: Name) -> None:
    """Let somebody in again who was kept out."""
    await _set_disabled(call, name, disabled=False)


async def _set_disabled(call: Call, name: str, *, disabled: bool) -> None:
    from protos.gen.ops.access_pb2 import SetDisabledRequest

    asked = SetDisabledRequest(name=name, disabled=disabled)
    reply, _ = await call.change(_users(call).SetDisabled, asked)
    state = "is kept out" if disabled else "may sign in"
    call.page.one(_user(reply), name, lambda: f"{name} {state}")


@token.command("create")
@command
async def create(
    call: Call,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="What it is for.")],
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Whose, if not one's own.")
    ] = "",
    days: Annotated[int, typer.Option("--days", help="How long it is good.")] = 30,
    cloudlet: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATOR/NAME",
            help="What a resource manager may speak of, or `any`; an agent: of nothing else.",
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE",
            help="The node that an agent may be: NODE or PREFIX*, with @POOL for one pool, or "
            "`any`; without it, of none.",
        ),
    ] = None,
) -> None:
    """Make a token for a program, and show it, this once.

    It is the only thing on stdout. Programs send it as WINDLASS_TOKEN. One's own ends with the
    sign-in that it was made with, at the latest; that of another user, which an administrator
    makes, does not."""
    from protos.gen.ops.access_pb2 import CreateTokenRequest

    bound = {"cloudlets": cloudlet or (), "nodes": node or ()}
    asked = CreateTokenRequest(user=user, label=label, days=days, **bound)
    reply, _ = await call.change(_tokens(call).Create, asked)
    document = {**_token(reply.token), "secret": reply.secret}
    call.page.one(document, reply.token.id, lambda: reply.secret)


@token.command("list")
@command
async def list_tokens(
    call: Call,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Of this user alone.")] = "",
) -> None:
    """List the tokens that are good, one's own.

    An administrator sees those of all."""
    from protos.gen.ops.access_pb2 import ListTokensRequest

    reply = await call.ask(_tokens(call).List, ListTokensRequest(user=user))
    items = [_token(each) for each in reply.tokens]
    call.page.many(items, TOKENS, lambda it: str(it["id"]), none="there are no tokens")


@token.command("revoke")
@command
async def revoke(
    call: Call,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As windlass token list shows it.")],
) -> None:
    """End a token, everywhere within a second."""
    from protos.gen.ops.access_pb2 import RevokeTokenRequest

    await call.change(_tokens(call).Revoke, RevokeTokenRequest(id=token_id))
    call.page.say(f"token {token_id} is revoked")


def _lasting(path: str) -> str:
    """A path that is good from wherever we are called next."""
    return os.path.abspath(path) if path else ""


def _password(file: str, *, new: bool = False, asking: str = "password: ") -> str:
    """A password that was put somewhere, or is typed now, a new one twice."""
    if file:
        try:
            said = sys.stdin.readline() if file == "-" else Path(file).read_text()
        except OSError as error:
            raise Complaint(f"{file} cannot be read: {error.strerror}", Code.USAGE) from error
        return said.rstrip("\r\n")
    if not sys.stdin.isatty():
        raise Complaint(
            "nobody is there to type a password",
            Code.USAGE,
            do="put it into a file and name that as --password-file; - is standard input",
        )
    from getpass import getpass

    typed = getpass("the new password: " if new else asking)
    if new and getpass("once more: ") != typed:
        raise Complaint("these were two different passwords", do="try again")
    return typed


def _users(call: Call) -> "access_pb2_grpc.UsersStub":
    from protos.gen.ops.access_pb2_grpc import UsersStub

    return UsersStub(call.channel)


def _tokens(call: Call) -> "access_pb2_grpc.TokensStub":
    from protos.gen.ops.access_pb2_grpc import TokensStub

    return TokensStub(call.channel)


def _user(said: "access_pb2.User") -> Document:
    return {
        "name": said.name,
        "role": _role(said.role),
        "developer": said.developer,
        "disabled": said.disabled,
        "created": _time(said.created),
    }


def _token(said: "access_pb2.Token") -> Document:
    return {
        "id": said.id,
        "user": said.user,
        "label": said.label,
        "created": _time(said.created),
        "expires": _time(said.expires),
        "used": _time(said.used),
        "source": said.source,
        "cloudlets": list(said.cloudlets),
        "nodes": list(said.nodes),
    }


def _role(number: int) -> str:
    from protos.gen.ops.access_pb2 import Role

    return Role.Name(number).lower()  # type: ignore[arg-type]


def _time(stamp: "Timestamp") -> str:
    return stamp.ToJsonString()
