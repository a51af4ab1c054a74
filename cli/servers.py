"""Servers by names of one's own: commands of one group."""

from dataclasses import replace
from typing import Annotated, TypeAlias

import typer

from cli import contexts
from cli.calling import Call, command, group
from cli.printing import Column, Document

context = group("Servers by names of one's own.")

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]

CONTEXTS = (
    Column("", lambda it: "*" if it["current"] else ""),
    Column("NAME", lambda it: it["name"]),
    Column("ADDRESS", lambda it: it["address"]),
    Column("USER", lambda it: it["user"]),
)


@context.command("list")
@command
async def list_contexts(call: Call) -> None:
    """List the servers that have names here."""
    known = contexts.load()
    items: list[Document] = [
        {
            "name": name,
            "current": name == known.current,
            "address": each.address,
            "http": each.http,
            "user": each.user,
            "signed_in": bool(each.token),
        }
        for name, each in sorted(known.known.items())
    ]
    none = "there are no contexts: windlass login makes one"
    call.page.many(items, CONTEXTS, lambda it: str(it["name"]), none=none)


@context.command("use")
@command
async def use(call: Call, name: Name) -> None:
    """Call that server from now on."""
    known = contexts.load()
    known.chosen(name)
    replace(known, current=name).save()
    call.page.say(f"from now on {known.known[name].address}")


@context.command("remove")
@command
async def remove(call: Call, name: Name) -> None:
    """Forget a server, and the token for it. The token stays good: sign out first."""
    contexts.load().without(name).save()
    call.page.say(f"{name} is forgotten")
