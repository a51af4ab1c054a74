"""How the processes write their log, and who may read what they write."""

import logging
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import structlog

from settings import Settings

PRIVATE = 0o077
"""What others may not have of anything that our processes make: folders 0700, files 0600."""

BESIDE_DATABASE = ("", "-wal", "-shm")
LOOKED_AT = 1000
"""So many files of the state folder are looked at."""


def start_log(settings: Settings) -> None:
    """Write log lines to standard error: JSON for machines, or text for people. Lines of libraries
    that log in the standard way come out in the same form."""
    said: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    # The usual traceback, since the fancy one shows local variables, and those hold secrets.
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    if settings.log_format == "json":
        said.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*said, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=said)
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def keep_private(settings: Settings) -> None:
    """Make whatever this process writes from here on readable for its own user alone, and log a
    warning if others may read what is there already."""
    os.umask(PRIVATE)
    if found := exposed(settings):
        structlog.get_logger().warning(
            "others can read what should be private",
            paths=[str(path) for path in found[:10]],
            count=len(found),
            do=close_to_others(settings, found),
        )


def exposed(settings: Settings) -> list[Path]:
    """The folder of the state, what lies in it, and keys and databases that lie elsewhere, as far
    as others than their owner may have them. A key outside of the state may be its group's."""
    state = settings.state
    found = [path for path in _within(state) if _mode(path) & PRIVATE]
    elsewhere = (path for path in _kept(settings) if path not in found)
    return found + [path for path in elsewhere if _mode(path) & stat.S_IRWXO]


def close_to_others(settings: Settings, found: Sequence[Path]) -> str:
    """The command that takes them from others."""
    mine = any(path.is_relative_to(settings.state) for path in found)
    others = [str(path) for path in found if not path.is_relative_to(settings.state)]
    return " ".join(["chmod -R go=", *([str(settings.state)] if mine else []), *others])


def _within(state: Path) -> Iterator[Path]:
    yield state
    try:
        yield from islice(state.iterdir(), LOOKED_AT)
    except OSError:  # there is none yet, or it is not ours to read
        return


def _kept(settings: Settings) -> Iterator[Path]:
    if settings.database.startswith("sqlite"):
        file = settings.database.partition(":///")[2]
        yield from (Path(file + end) for end in BESIDE_DATABASE if file)
    files = (
        *(settings.key_file, settings.backups, settings.tls.key, settings.tls.peer_key),
        *(settings.agent.key_file, settings.maas.api_key_file, settings.ceph.password_file),
        settings.ceph.keyring_file,
    )
    yield from filter(None, files)


def _mode(path: Path) -> int:
    """Who may have a file or folder. What is neither, such as a socket or a link, counts not."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return 0
    return stat.S_IMODE(found) if stat.S_ISREG(found) or stat.S_ISDIR(found) else 0
