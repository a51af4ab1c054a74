"""`windlass`: what a person can ask of the server, and what to type for it."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.exceptions import TyperException

from cli import (
    audit,
    certs,
    cluster,
    config,
    edge,
    health,
    inside,
    instance,
    node,
    operation,
    pods,
    pool,
    records,
    secrets,
    servers,
    signing,
    storage,
    trace,
    upgrade,
)
from cli.calling import Call, Terms, command, complain, everywhere, show_help
from cli.complaints import Code, Complaint
from cli.options import SiteFile, SitePlan
from cli.printing import Page

app = typer.Typer(
    name="windlass",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
upgrade.belongs_to(cluster.app)
app.add_typer(cluster.app, name="cluster")
app.add_typer(pool.app, name="pool")
app.add_typer(operation.app, name="op")
app.add_typer(health.machine, name="machine")
app.add_typer(node.app, name="node")
inside.belongs_to(instance.app)
app.add_typer(instance.app, name="instance")
app.add_typer(pods.pod, name="pod")
app.add_typer(pods.image, name="image")
app.command("events")(pods.events)
app.command("trace")(trace.trace)
app.add_typer(storage.app, name="storage")
app.command("login")(signing.login)
app.command("logout")(signing.logout)
app.command("whoami")(signing.whoami)
app.add_typer(signing.user, name="user")
app.add_typer(signing.token, name="token")
app.add_typer(servers.context, name="context")
app.add_typer(audit.audit, name="audit")
app.add_typer(certs.certs, name="certs")
app.add_typer(secrets.secrets, name="secrets")


@app.callback(invoke_without_command=True)
@everywhere
def root(context: typer.Context, terms: Terms) -> None:
    """From bare metal to running clusters, step by step, and no step slips back."""
    context.obj = terms
    show_help(context)


@app.command("up")
@command
async def up(
    call: Call,
    cluster: Annotated[
        bool, typer.Option("--cluster/--no-cluster", help="Also create the cluster hello.")
    ] = True,
) -> int:
    """Start a whole site here, and its first cluster.

    That is a server with its workers, and machines that are simulated, all on this machine. Ctrl-C
    stops it; started again in the same folder, it finds everything as it was."""
    from cli.up import run as raise_site

    return await raise_site(call, cluster=cluster)


@app.command("doctor")
@command
async def doctor(call: Call) -> int:
    """Check what the other commands need.

    Every line says what was found, and what to do if that is not well. Exits 1 if a check fails."""
    from cli.doctor import examine

    return await examine(call)


@app.command("version")
@command
async def version(call: Call) -> None:
    """Show the versions here and on the server.

    A server that cannot be reached is no failure."""
    from cli import versions

    await versions.show(call)


@app.command("exec")
@command
async def exec_(
    call: Call,
    instance: Annotated[
        str,
        typer.Argument(
            metavar="DEVELOPER/APP/VERSION/OPERATOR/CLOUDLET[/CLUSTER]", help="Where it runs."
        ),
    ],
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="What to run there.")],
    container: Annotated[
        str, typer.Option("--container", metavar="NAME", help="Not in the first, but there.")
    ] = "",
) -> int:
    """Run a command where an app at the edge runs.

    Shows what it writes, and exits as it does."""
    from cli.exec import execute

    return await execute(call, instance, words, container)


@app.command("apply")
@command
async def apply(call: Call, file: SiteFile, plan: SitePlan = False) -> None:
    """Make all that a file describes at the edge as it says.

    What is not there is created, what is other is changed, the rest is left alone; so it may be
    asked for again, and has to be if it stopped half way."""
    from cli import site

    await site.apply(call, file, plan=plan)


@app.command("delete")
@command
async def delete(call: Call, file: SiteFile, plan: SitePlan = False) -> None:
    """Delete all that a file describes at the edge.

    What is not there is passed over."""
    from cli import site

    await site.delete(call, file, plan=plan)


for noun in edge.NOUNS:
    app.add_typer(records.commands(noun), name=noun.word)
app.add_typer(config.app, name="config")


def run(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=arguments, prog_name="windlass", standalone_mode=False)
    except TyperException as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "windlass")
        do = f"{path} --help shows what it takes"
        complain(Page(), Complaint(error.format_message(), Code.USAGE, do=do))
        return Code.USAGE
    except typer.Abort:
        return Code.FAILED
    return code if isinstance(code, int) else Code.OK


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
