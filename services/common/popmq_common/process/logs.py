"""Log set-up, in one place: pretty on a terminal, one JSON object a line otherwise. What a service
says again and again is written once, and then counted (log_limit.py).

Event names are `noun.past_participle`: `segment.rolled`, `messages.revived`. Never a message body
or a credential. Core modules do not log.
"""

import asyncio
import logging
import sys
import time
from threading import Lock
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from popmq_common.process.log_limit import WINDOW_S, LogLimit

Log = structlog.stdlib.BoundLogger
LEVELS: Final = ("debug", "info", "warning", "error")
LOOK_S: Final = 1.0
"""From one look for minutes that are over to the next."""


def configure(level: str = "info", stream: TextIO = sys.stderr, *, limited: bool = False) -> None:
    """Call once, in the program's main. `limited`: repeated lines are counted, for what runs for
    long. Raises `ValueError` for an unknown level."""
    if level.lower() not in LEVELS:
        raise ValueError(f"log level {level!r}: one of {', '.join(LEVELS)}")
    number = logging.getLevelNamesMapping()[level.upper()]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer() if stream.isatty() else structlog.processors.JSONRenderer()
    )
    last: list[Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        renderer,
    ]
    if limited:
        last.insert(0, Limited(list(last), stream))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


class Limited:
    """A processor that drops what is repeated, and writes the counts when their minute is over."""

    def __init__(self, rest: list[Processor], stream: TextIO) -> None:
        """`rest`: what makes text of a line."""
        self._limit = LogLimit()
        self._rest = rest
        self._out = structlog.PrintLogger(stream)
        self._due: asyncio.TimerHandle | None = None
        self._next_look_s = 0.0
        self._lock = Lock()
        """Short file work logs from threads of its own."""

    def __call__(self, logger: WrappedLogger, name: str, line: EventDict) -> EventDict:
        if line.get("exc_info") is True:
            line["exc_info"] = sys.exc_info()
        with self._lock:
            now_s = _now_s()
            self._write(now_s)
            admitted = self._limit.admits(line, now_s)
        if not admitted:
            self._write_later()
            raise structlog.DropEvent
        return line

    def _write(self, now_s: float) -> None:
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_S
        for told in self._limit.ended(now_s):
            line: EventDict = told
            for process in self._rest:
                line = process(None, told["level"], line)  # type: ignore[assignment] # the last makes text
            self._out.msg(str(line))

    def _write_later(self) -> None:
        """Also when nothing else is logged."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # not in the service's loop: the next line writes it
        if self._due is None or self._due.when() < loop.time():
            self._due = loop.call_later(WINDOW_S, self._write_now)

    def _write_now(self) -> None:
        with self._lock:
            self._write(_now_s())


def _now_s() -> float:
    return time.monotonic()


def log_unhandled() -> None:
    """Errors in the running loop that nobody handles are lines of this log, like all others."""
    asyncio.get_running_loop().set_exception_handler(_unhandled)


def _unhandled(_: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
    log = structlog.get_logger()
    log.error("error.unhandled", reason=found["message"], exc_info=found.get("exception"))


def get(service: str) -> Log:
    log: Log = structlog.get_logger(service=service)
    return log
