"""`windlass config`: what is set on this machine, and by whom."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cli.calling import Call, command, group
from cli.complaints import Complaint
from cli.printing import Column, Document

if TYPE_CHECKING:
    from settings import Settings

Answer = TypeVar("Answer")

app = group("The settings on this machine.")

COLUMNS = (Column("NAME", lambda it: it["name"]), Column("VALUE", lambda it: it["value"]))
ORIGINS = (
    Column("ORIGIN", lambda it: it["origin"]),
    Column("VARIABLE", lambda it: it["variable"]),
)
RELEASES = (
    Column("VERSION", lambda it: it["version"]),
    Column("SERIES", lambda it: it["series"]),
    Column("DEFAULT", lambda it: "yes" if it["default"] else ""),
)
DESCRIPTION = Column("WHAT IT SAYS", lambda it: it["description"], wide=True)

HIDDEN = "***"
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:/@\s]*):[^@\s]*(?=@)")
_PARAMETER = re.compile(r"(?<=[?&])(?P<name>[^=&\s]*(?:password|token|secret|key))=[^&\s]*")


@app.command("show")
@command
async def show(
    call: Call,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also show who set it, and the variable that would.")
    ] = False,
) -> None:
    """Show every setting. Secrets are hidden.

    They are read here, as a server started from this folder would; one that runs is not asked."""
    columns = (*COLUMNS, *(ORIGINS if origin else ()), DESCRIPTION)
    call.page.many(listed(), columns, lambda it: str(it["name"]), none="there are no settings")


@app.command("catalogue")
@command
async def catalogue(call: Call) -> None:
    """Show the Kubernetes releases on offer.

    They are read here, as a server started from this folder would; one that runs is not asked."""
    call.page.many(
        releases(),
        RELEASES,
        lambda it: f"{it['version']} {it['series']}",
        none="there are no releases",
    )


def releases() -> list[Document]:
    """Every entry of the catalogue. What a new cluster gets that asks for nothing is marked."""
    from offer import catalogue

    found = read(lambda: catalogue(loaded()))
    chosen = found.choose("")
    return [
        {"version": each.version, "series": each.series, "default": each == chosen}
        for each in found.releases
    ]


def listed() -> list[Document]:
    """Every setting with its value and its origin."""
    from cli.origins import origins

    return [
        {
            "name": each.name,
            "value": hidden(each.value),
            "origin": each.origin,
            "variable": each.variable,
            "description": each.description,
        }
        for each in origins(loaded())
    ]


def loaded() -> "Settings":
    """The settings as they are here."""
    from settings import read as read_settings

    return read(read_settings)


def read(what: Callable[[], Answer]) -> Answer:
    """Something read from files. What is wrong with them is told line by line."""
    from domain.errors import Invalid

    try:
        return what()
    except Invalid as error:
        said, *lines = error.message.split("\n  ")
        raise Complaint(said, lines=lines, do=error.do) from error


def hidden(value: str) -> str:
    """A value without what is secret in it: a secret as such, or the password of a URL."""
    if value and set(value) == {"*"}:
        return HIDDEN
    shown = _PASSWORD.sub(rf"\g<user>:{HIDDEN}", value)
    return _PARAMETER.sub(rf"\g<name>={HIDDEN}", shown)
