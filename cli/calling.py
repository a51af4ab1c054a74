"""One call of the command: what every command takes, the channel, deadlines, and what to say when
it goes wrong."""

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, Self, TypeVar

import typer

from cli import contexts
from cli.complaints import Code, Complaint, explained
from cli.printing import Format, Page

if TYPE_CHECKING:
    import grpc.aio

Given = ParamSpec("Given")
Request = TypeVar("Request")
Reply = TypeVar("Reply")

ADDRESS = "127.0.0.1:9020"
HTTP = "http://127.0.0.1:8282"

READ_SECONDS = 15.0
CHANGE_SECONDS = 30.0
"""How long a call may take. What it starts may take longer: that is an operation."""

EDGE = (
    *("Developer", "Operator", "Flavor", "Cluster", "App", "Cloudlet"),
    *("ClusterInst", "AppInst"),
)


RUNNING = {
    "scheduler.InstanceService": ("Start", "Stop", "Destroy"),
    "windlass.v1.Instances": ("Create", "Plan", "List", "Get", "Why"),
    "windlass.v1.Nodes": ("List", "Cordon", "Uncordon", "Drain", "Free"),
}
"""What may be asked again when it found no connection: asking twice is asking once."""


@dataclass(frozen=True)
class Terms:
    """What may be said before or after any command. After it wins."""

    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help=f"Where the server is (WINDLASS_ADDRESS; else {ADDRESS}).",
        ),
    ] = None
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="URL",
            help=f"Where its HTTP door is (WINDLASS_HTTP; else {HTTP}).",
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="Which server, of windlass context list.",
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="Who we are (WINDLASS_TOKEN, which others cannot see; else whoever signed in).",
        ),
    ] = None
    ca: Annotated[
        str | None,
        typer.Option(
            "--ca",
            metavar="FILE",
            help="Whom to trust to be the server (WINDLASS_CA; else nothing is encrypted).",
        ),
    ] = None
    cert: Annotated[
        str | None,
        typer.Option(
            "--cert",
            metavar="FILE",
            help="A certificate that says who we are (WINDLASS_CERT).",
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The certificate's key (WINDLASS_KEY).",
        ),
    ] = None
    output: Annotated[
        Format | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="How to answer: table, wide, json, yaml or name.",
        ),
    ] = None
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show tracebacks."),
    ] = False
    color: Annotated[
        bool | None,
        typer.Option(
            "--color/--no-color",
            help="Colour; else on a terminal, unless NO_COLOR is set.",
        ),
    ] = None

    def over(self, earlier: "Terms | None") -> "Terms":
        """These terms, and where they are silent the earlier ones."""
        if earlier is None:
            return self
        silent = {f.name for f in fields(self) if getattr(self, f.name) == f.default}
        return replace(self, **{name: getattr(earlier, name) for name in silent})


class Call:
    """What a command works with. The channel is opened when first used, closed when it is over."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        known, said = contexts.load(), os.environ.get
        mine = known.chosen(terms.profile)
        named = mine if terms.profile else contexts.Context()
        self.address = (
            terms.address or named.address or said("WINDLASS_ADDRESS") or mine.address or ADDRESS
        )
        self.http = (terms.http or named.http or said("WINDLASS_HTTP") or mine.http or HTTP).rstrip(
            "/"
        )
        self.ca = terms.ca or named.ca or said("WINDLASS_CA") or mine.ca
        env = (said("WINDLASS_CERT"), said("WINDLASS_KEY"))
        ways = ((terms.cert, terms.key), named.pair, env, mine.pair)
        self.pair = next(filter(any, ways), ("", ""))  # a key fits one certificate alone
        self.token = self.http_token = terms.token or said("WINDLASS_TOKEN") or ""
        if not self.token and self.address == mine.address:  # nobody else is shown it
            self.token, self.http_token = mine.token, mine.token if self.http == mine.http else ""
        self.page = Page(terms.output or Format.TABLE, terms.color)
        self.request_id = ""
        """The key of the change that was asked for, to repeat it safely."""
        self.connected = True
        """Whether there was a connection in the end; a call that timed out may never have left."""
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> "grpc.aio.Channel":
        if self._channel is None:
            self._channel = opened(self.address, self.token, self.ca, self.pair)
        return self._channel

    async def ask(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Reply]",
        request: Request,
        *,
        seconds: float = READ_SECONDS,
    ) -> Reply:
        """Ask a question. It changes nothing, so gRPC may ask again when a connection breaks."""
        return await method(request, timeout=seconds)

    async def ask_all(
        self, method: "grpc.aio.UnaryUnaryMultiCallable[Request, Reply]", request: Request
    ) -> tuple[Reply, dict[str, str]]:
        """Ask a question, and hear also what is said beside the answer."""
        call = method(request, timeout=READ_SECONDS)
        reply = await call
        return reply, {key: str(value) for key, value in await call.trailing_metadata()}

    async def change(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Reply]",
        request: Request,
        request_id: str = "",
        *,
        wishes: Sequence[tuple[str, str]] = (),
    ) -> tuple[Reply, str]:
        """Ask for a change, always under a key, so that gRPC may repeat it and it happens once.
        Wishes are metadata of ours. Also returns the id of the operation it started."""
        metadata = (("x-request-id", self.keyed(request_id)), *wishes)
        call = method(request, timeout=CHANGE_SECONDS, metadata=metadata)
        reply = await call
        trailers = {key: str(value) for key, value in await call.trailing_metadata()}
        return reply, trailers.get("windlass-operation", "").removeprefix("operations/")

    def keyed(self, request_id: str) -> str:
        """The key to ask for a change under: the user's own, or one that is drawn now."""
        if not request_id:
            import uuid

            request_id = str(uuid.uuid4())
        self.request_id = request_id
        return request_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._channel is not None:
            self.connected = self._channel.get_state().name == "READY"
            await self._channel.close()


def opened(
    address: str,
    token: str = "",
    ca: str = "",
    pair: tuple[str | None, str | None] = ("", ""),
) -> "grpc.aio.Channel":
    """A channel that notices a dead peer within a minute and repeats what found no connection."""
    import grpc.aio

    retry = {
        "maxAttempts": 3,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    methods = [
        {"name": [{"service": "cnct.kaas.api.Cluster"}], "retryPolicy": retry},
        {"name": [{"service": "google.longrunning.Operations"}], "retryPolicy": retry},
        {"name": [{"service": "stats.StatsService"}], "retryPolicy": retry},
        {"name": [{"service": "windlass.v1.Health"}], "retryPolicy": retry},
        {"name": [{"service": f"edgeproto.{noun}Api"} for noun in EDGE], "retryPolicy": retry},
        *(
            {"name": [{"service": "windlass.v1.Operations", "method": name}], "retryPolicy": retry}
            for name in ("List", "Get", "Plan")  # a watch that breaks is taken up where it broke
        ),
        *(
            {"name": [{"service": service, "method": name}], "retryPolicy": retry}
            for service, names in RUNNING.items()
            for name in names
        ),
    ]
    from cli.carrying import carrying

    carriers = carrying(token) if token else None
    options = [
        ("grpc.service_config", json.dumps({"methodConfig": methods})),
        ("grpc.keepalive_time_ms", 40_000),  # the server suffers a ping every 30 s
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.min_reconnect_backoff_ms", 5_000),  # also how long connecting may take
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.enable_http_proxy", 0),  # a site is in one's own network
    ]
    trusted = _credentials(ca, *pair)
    if trusted is None:
        return grpc.aio.insecure_channel(address, options=options, interceptors=carriers)
    return grpc.aio.secure_channel(address, trusted, options=options, interceptors=carriers)


def _credentials(ca: str, cert: str | None, key: str | None) -> "grpc.ChannelCredentials | None":
    """Whom we trust, and who we are. None: nothing is encrypted."""
    import grpc

    if bool(cert) != bool(key):
        raise Complaint("a certificate needs its key", Code.USAGE, do="say --cert and --key")
    if cert and not ca:
        said = "a certificate is shown to nobody whom we do not trust to be the server"
        raise Complaint(said, Code.USAGE, do="say --ca")
    ours = (_read(key), _read(cert)) if cert and key else ()
    return grpc.ssl_channel_credentials(_read(ca), *ours) if ca else None


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Complaint(f"{file} cannot be read: {error.strerror}", Code.USAGE) from error


def group(about: str) -> typer.Typer:
    """A command that only has commands. By itself it shows them, and is no use otherwise."""
    app = typer.Typer(help=about)

    @app.callback(invoke_without_command=True, help=about)
    def root(context: typer.Context) -> None:
        show_help(context)

    return app


def show_help(context: typer.Context) -> None:
    """Show what may be said further on, if nothing was."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(Code.USAGE)


def everywhere(work: Callable[[typer.Context, Terms], None]) -> Callable[..., None]:
    """Let the root of the command take the terms, which its commands then take over."""

    @functools.wraps(work)
    def run(*, context: typer.Context, **given: Any) -> None:
        work(context, Terms(**given))

    return _signed(run, [])


def command(
    work: Callable[Concatenate[Call, Given], Coroutine[Any, Any, int | None]],
) -> Callable[..., None]:
    """Make a coroutine a command: it also takes the terms, and what it raises becomes a complaint.

    It returns its exit code, or None for success."""

    free: Callable[..., Coroutine[Any, Any, int | None]] = work

    @functools.wraps(work)
    def run(*, context: typer.Context, **given: Any) -> None:
        said = Terms(**{field.name: given.pop(field.name) for field in fields(Terms)})
        terms = said.over(context.obj if isinstance(context.obj, Terms) else None)
        try:
            call = Call(terms)
        except Complaint as complaint:
            complain(Page(terms.output or Format.TABLE, terms.color), complaint)
            raise typer.Exit(complaint.code) from None
        if code := performed(call, functools.partial(free, call, **given)):
            raise typer.Exit(code)

    return _signed(run, list(inspect.signature(work).parameters.values())[1:])


def _signed(run: Callable[..., None], own: list[inspect.Parameter]) -> Callable[..., None]:
    """Give a function the signature that typer reads: the context, its own, and the terms."""
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    taken = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (context, *own, *inspect.signature(Terms).parameters.values())
    ]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    return run


def performed(call: Call, work: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run it to its end, say what went wrong, and return the exit code."""
    import asyncio

    async def whole() -> int:
        async with call:
            return await work() or Code.OK

    try:
        code = asyncio.run(whole())
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Code.INTERRUPTED
    except BrokenPipeError:  # whoever read us has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Code.FAILED
    except Exception as error:
        if call.terms.debug:
            import traceback

            traceback.print_exception(error)
        complaint = explained(error, call.address, call.request_id, connected=call.connected)
        complain(call.page, complaint)
        return complaint.code
    return code


def complain(page: Page, complaint: Complaint) -> None:
    """Say it on stderr, the word that it is an error in red."""
    from rich.text import Text

    text = Text(complaint.text())
    text.stylize("bold red", 0, len("error:"))
    page.err.print(text)
