"""Brings the database to the newest tables, says whether it is there, or drafts a revision; and
opens what was sealed; adds a key to seal with; lets the first administrator in; and keeps what
opens registries of images; and removes old lines of the audit trail.

python -m store migrate [--wait SECONDS]
python -m store check
python -m store draft MESSAGE
python -m store open BACKUP ARCHIVE
python -m store key NAME
python -m store administrator [NAME]
python -m store registry HOST [USER]
python -m store prune-audit --before DATE
"""

import argparse
import asyncio
import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from domain.access import misnamed
from domain.disk import REASONS, trouble
from domain.errors import DomainError, Failed, Invalid, Unavailable
from domain.registries import Credentials, kept_under, named
from settings import read
from store import keys, schema
from store.audit import Audit
from store.engine import Database
from store.passwords import Passwords
from store.rows import now
from store.sealed_files import unseal
from store.sealing import Seal
from store.secrets import Secrets
from store.users import Users

PAUSE_SECONDS = 0.5
"""Between two looks at a database that is starting."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m store", description="The database's tables.")
    commands = parser.add_subparsers(dest="command", required=True)
    migrate = commands.add_parser("migrate", help="bring the database to the newest tables")
    migrate.add_argument(
        "--wait", type=float, default=60.0, help="seconds a database may take to start (60)"
    )
    commands.add_parser("check", help="say whether the database has the newest tables")
    draft = commands.add_parser("draft", help="write the next revision, for a change of the tables")
    draft.add_argument("message", help="what changes, in a few words")
    opening = commands.add_parser("open", help="open a sealed copy of a cluster")
    opening.add_argument("backup", type=Path, help="the sealed file")
    opening.add_argument(
        "archive", type=Path, help="the tar archive to be made of it; with secrets in it"
    )
    key = commands.add_parser("key", help="add a key to the key file, which nobody uses yet")
    key.add_argument("name", help="what to call it, such as 2027-01")
    first = commands.add_parser(
        "administrator", help="add the first user, unless there are some, and tell the password"
    )
    first.add_argument("name", nargs="?", default="admin", help="what to call them (admin)")
    registry = commands.add_parser(
        "registry", help="keep what opens a registry of images: the password comes on stdin"
    )
    registry.add_argument("host", help="with its port, if it has one of its own")
    registry.add_argument("user", nargs="?", default="", help="nobody: what is kept is forgotten")
    prune = commands.add_parser("prune-audit", help="remove old lines of the audit trail, for good")
    prune.add_argument(
        "--before",
        type=datetime.fromisoformat,
        required=True,
        metavar="DATE",
        help="such as 2026-01-31; in UTC, if no zone is named",
    )
    given = parser.parse_args(arguments)
    os.umask(0o077)  # what is written is for nobody else to read
    try:
        return asyncio.run(_run(given))
    except DomainError as error:
        print(f"error: {_told(error)}", file=sys.stderr)
        return 1
    except OSError as error:  # such as a disk that is full, or a file that is another user's
        print(f"error: {_unwritten(error)}", file=sys.stderr)
        return 1


async def _run(given: argparse.Namespace) -> int:
    if given.command == "draft":
        print(f"{await schema.draft(given.message)}: read it before you trust it")
        return 0
    if given.command == "open":
        return _open(given.backup, given.archive)
    if given.command == "key":
        return _add_key(given.name)
    url = read().database
    if given.command == "administrator":
        return await _administrator(url, given.name)
    if given.command == "prune-audit":
        return await _prune_audit(url, given.before)
    if given.command == "registry":
        return await _registry(url, given.host, given.user)
    return await (_check(url) if given.command == "check" else _migrate(url, given.wait))


def _open(backup: Path, archive: Path) -> int:
    settings = read()
    key_file, command = settings.key_file, settings.key_command
    if not command and not key_file.exists():  # a key made now would open nothing
        raise Failed(
            f"there is no key file {key_file}",
            do="name the one it was sealed with as WINDLASS_KEY_FILE",
        )
    size = unseal(backup, archive, Seal.from_file(key_file, command))
    print(f"{archive} holds {size} bytes, readable by you alone: certificates and secrets")
    return 0


def _add_key(name: str) -> int:
    settings = read()
    if settings.key_command:
        raise Invalid(
            "the keys come from a command", do="add one where WINDLASS_KEY_COMMAND has them from"
        )
    keys.add(settings.key_file, name)
    print(
        f"{settings.key_file} has the key {name}. Once it is so wherever a process of ours runs:\n"
        f"windlass secrets rotate-key {name}"
    )
    return 0


async def _migrate(url: str, wait_seconds: float) -> int:
    until = monotonic() + wait_seconds
    told = False
    while True:
        try:
            revision = await schema.upgrade(url)
        except Unavailable as error:
            if make_url(url).get_backend_name() == "sqlite" or monotonic() > until:
                raise
            if not told:
                print(f"waiting up to {wait_seconds:g} s: {_told(error)}", file=sys.stderr)
            told = True
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            print(f"{_shown(url)} is at {revision}, the newest revision")
            return 0


async def _administrator(url: str, name: str) -> int:
    """Print name and password once. Where there are users already, nothing is printed."""
    if violations := misnamed(name):
        raise Invalid(f"{name!r} {violations[0].description}", do="choose another name")
    database, passwords = Database(url, connections=1), Passwords()
    try:
        password = secrets.token_urlsafe(12)
        if await Users(database).begin(name, await passwords.hashed(password)):
            print(f"{name} {password}")
        else:
            print("there are users already: nothing is changed", file=sys.stderr)
        return 0
    finally:
        passwords.close()
        await database.close()


async def _registry(url: str, host: str, user: str) -> int:
    """Seal what opens a registry; workers hand it to agents with what they are to run."""
    host = named(host)
    password = sys.stdin.readline().rstrip("\n") if user else ""
    if user and not password:
        raise Invalid("there is no password on stdin", do="give it there, on a line of its own")
    database = Database(url, connections=1)
    vault = Secrets(database, Seal.from_file(read().key_file))
    try:
        await vault.verify()
        if user:
            known = Credentials(username=user, password=password)
            await vault.keep(kept_under(host), known.carried().encode())
            print(f"images of {host} are fetched as {user}")
        elif await vault.drop(kept_under(host)):
            print(f"images of {host} are fetched as nobody")
        else:
            print(f"nothing is kept of {host}", file=sys.stderr)
        return 0
    finally:
        await database.close()


async def _prune_audit(url: str, before: datetime) -> int:
    """Print the anchor of the trail that is left: one of a removed line holds no more."""
    before = before if before.tzinfo else before.replace(tzinfo=UTC)
    if before > now():
        raise Invalid(f"{before:%Y-%m-%d} is yet to come", do="name a date that is over")
    database = Database(url, connections=1)
    try:
        audit = Audit(database)
        begun = await audit.prune(before, f"uid {os.getuid()}")
        if begun is None:
            print("there are no lines that old: nothing is removed", file=sys.stderr)
            return 0
        left = await audit.verify()
        print(f"the audit trail begins with line {left.first}; anchor {left.lines}:{left.chain}")
        return 0
    finally:
        await database.close()


async def _check(url: str) -> int:
    database = Database(url, connections=1)
    try:
        lacking = await schema.lacking(database)
    finally:
        await database.close()
    if not lacking:
        print(f"{_shown(url)} is at {schema.newest()}, the newest revision")
        return 0
    print(f"error: {_shown(url)} is {lacking}", file=sys.stderr)
    return 1


def _unwritten(error: OSError) -> str:
    found = trouble(error, error.filename or "what was to be written")
    return _told(found) if found else f"{error}\nmake it readable and writable for this user"


def _told(error: DomainError) -> str:
    """What went wrong and what the driver said of it, on one line each."""
    cause = error.__cause__
    said = cause.orig if isinstance(cause, DBAPIError) else cause
    if isinstance(error, Unavailable) and error.reason not in REASONS and said is not None:
        return f"{error.message}: {said}\nlook at the database, and at WINDLASS_DATABASE"
    return f"{error.message}\n{error.do}"


def _shown(url: str) -> str:
    """The database without its password."""
    return make_url(url).render_as_string(hide_password=True)


if __name__ == "__main__":
    sys.exit(main())
