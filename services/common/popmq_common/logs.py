"""Log set-up, in one place: pretty on a terminal, one JSON object a line otherwise.

Event names are `noun.past_participle`: `segment.rolled`, `messages.revived`. Never a message body
or a credential. Core modules do not log.
"""

import logging
import sys
from typing import TextIO

import structlog

Log = structlog.stdlib.BoundLogger


def configure(level: str = "info", stream: TextIO = sys.stderr) -> None:
    """Call once, in the program's main. Raises `ValueError` for an unknown level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r}: one of debug, info, warning, error")
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if stream.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def get(service: str) -> Log:
    log: Log = structlog.get_logger(service=service)
    return log
