"""How the processes write their log."""

import logging
import sys

import structlog

from settings import Settings


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
