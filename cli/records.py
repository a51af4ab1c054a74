"""The commands that all records of the edge contract share, made from a table of what each has."""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from cli import messages
from cli.calling import CHANGE_SECONDS, READ_SECONDS, Call, command, group
from cli.complaints import Code, Complaint
from cli.options import RequestId
from cli.printing import Column, Document

Work: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Flag:
    """One part of a record that can be typed."""

    name: str
    """As it is typed, without hyphens in front."""
    path: str
    help: str
    wide: bool = True
    """Whether tables show it with `-o wide` only."""
    given: bool = True
    """Whether callers say it. What others say can only be asked for."""


@dataclass(frozen=True)
class Noun:
    """A kind of record, and what may be said of one."""

    word: str
    message: str
    module: str
    key: tuple[str, ...]
    """The parts of its key, which are typed with slashes between."""
    metavar: str
    about: str
    flags: tuple[Flag, ...] = ()
    updates: bool = True
    manners: tuple[Flag, ...] = ()
    """How a change is to be made. No part of the record, and of no mask."""
    seconds: float = CHANGE_SECONDS
    """How long a change may take while it is followed."""
    inherits: str = ""
    """The part of its key that the last part is the same as, if that is not typed."""
    spared: tuple[str, ...] = ()
    """Parts of its key that may be empty."""


def commands(noun: Noun) -> typer.Typer:
    """`create`, `update` if there is such a thing, `delete` and `show`."""
    app = group(noun.about)
    all_of_it = [_option(flag) for flag in noun.flags]
    own = [_option(flag) for flag in noun.flags if flag.given]
    manners = [_option(flag) for flag in noun.manners]
    request_id = _parameter("request_id", RequestId, "")
    named = _parameter("name", _argument(noun), inspect.Parameter.empty)
    like = _parameter("name", _argument(noun, "Only this; a part may be empty."), "")
    verbs: dict[str, tuple[Work, list[inspect.Parameter], str]] = {
        "create": (_change(noun, "Create"), [named, *own, *manners, request_id], "Create one."),
        "update": (
            _update(noun),
            [named, *own, *manners, request_id],
            "Change what is said and nothing else.\n\nAn empty text clears.",
        ),
        "delete": (
            _change(noun, "Delete"),
            [named, *manners, request_id],
            "Delete one that is not in use.",
        ),
        "show": (_show(noun), [like, *all_of_it], "Show all, or those that are as is said."),
    }
    for verb, (work, parameters, about) in verbs.items():
        if verb != "update" or noun.updates:
            work.__doc__ = about
            work.__name__ = verb
            call = inspect.Parameter("call", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            work.__signature__ = inspect.Signature([call, *parameters])  # type: ignore[attr-defined]
            app.command(verb)(command(work))
    return app


def _change(noun: Noun, verb: str) -> Work:
    async def change(call: Call, name: str, request_id: str = "", **said: str | None) -> None:
        await asked(call, noun, verb, _message(noun, name, said), request_id)
        call.page.say(f"{noun.word} {name}: {verb.lower()}d")

    return change


def _update(noun: Noun) -> Work:
    async def update(call: Call, name: str, request_id: str = "", **said: str | None) -> None:
        request = _message(noun, name, said)
        paths = [flag.path for flag in noun.flags if said.get(_variable(flag)) is not None]
        if not paths:
            raise Complaint("nothing is said to change", Code.USAGE, do="add what shall be other")
        request.fields.extend(messages.number(request.DESCRIPTOR, path) for path in paths)
        await asked(call, noun, "Update", request, request_id)
        call.page.say(f"{noun.word} {name}: updated")

    return update


def _show(noun: Noun) -> Work:
    async def show(call: Call, name: str = "", **said: str | None) -> None:
        method = getattr(stub(call, noun), f"Show{noun.message}")
        request = _message(noun, name, said)
        stream = method(request, timeout=READ_SECONDS)
        found = [messages.plain(each) async for each in stream]
        columns = [Column(noun.metavar, lambda it: name_of(noun, it))]
        columns += [_column(flag, request.DESCRIPTOR) for flag in noun.flags]
        chosen = bool(name) or any(text is not None for text in said.values())
        none = (
            f"there is no {noun.word} like that"
            if chosen
            else f"there is no {noun.word}; windlass {noun.word} create makes one"
        )
        call.page.many(*(found, columns, lambda it: f"{noun.word}/{name_of(noun, it)}"), none=none)

    return show


async def asked(call: Call, noun: Noun, verb: str, request: Any, request_id: str) -> None:
    """Ask for a change, always under a key. What a stream tells is said on the way."""
    import grpc.aio

    method = getattr(stub(call, noun), f"{verb}{noun.message}")
    if isinstance(method, grpc.aio.UnaryUnaryMultiCallable):
        await call.change(method, request, request_id)
        return
    metadata = (("x-request-id", call.keyed(request_id)),)
    async for result in method(request, timeout=noun.seconds, metadata=metadata):
        call.page.say(result.message)


def stub(call: Call, noun: Noun) -> Any:
    from importlib import import_module

    module = import_module(f"protos.gen.edge.{noun.module}_pb2_grpc")
    return getattr(module, f"{noun.message}ApiStub")(call.channel)


def message(noun: Noun) -> Any:
    """A record of which nothing is said yet."""
    from importlib import import_module

    return getattr(import_module(f"protos.gen.edge.{noun.module}_pb2"), noun.message)()


def _message(noun: Noun, name: str, said: dict[str, str | None]) -> Any:
    """The record as it was typed."""
    request = message(noun)
    parts = name.split("/") if name else [""] * len(noun.key)
    if noun.inherits and len(parts) == len(noun.key) - 1:
        parts.append(parts[noun.key.index(noun.inherits)])
    if len(parts) != len(noun.key):
        raise Complaint(f"{name!r} names no {noun.word}", Code.USAGE, do=f"write it {noun.metavar}")
    for path, text in zip(noun.key, parts, strict=True):
        messages.put(request, path, text)
    for flag in (*noun.flags, *noun.manners):
        typed = said.get(_variable(flag))
        if typed is not None:
            messages.put(request, flag.path, typed, f"--{flag.name}")
    return request


def name_of(noun: Noun, document: Document) -> str:
    """Its name, as it is typed."""
    return "/".join(messages.at(document, path) for path in noun.key)


def _column(flag: Flag, described: Any) -> Column:
    title = flag.name.upper().replace("-", " ")
    return Column(title, lambda it: messages.shown(described, it, flag.path), wide=flag.wide)


def _variable(flag: Flag) -> str:
    return flag.name.replace("-", "_")


def _argument(noun: Noun, about: str = "") -> Any:
    return Annotated[str, typer.Argument(metavar=noun.metavar, help=about or "Its name.")]


def _option(flag: Flag) -> inspect.Parameter:
    option = typer.Option(f"--{flag.name}", metavar="TEXT", help=flag.help)
    return _parameter(_variable(flag), Annotated[str | None, option], None)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)
