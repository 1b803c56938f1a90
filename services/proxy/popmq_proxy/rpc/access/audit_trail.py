"""The audit trail: one JSON line for each refusal and each change that an operator makes.

    {"at": "2026-11-25T07:00:00.000+00:00", "what": "refused", "user": "alice",
     "address": "10.0.0.7", "call": "SendMessage", "resource": "Topic:orders Pub",
     "outcome": "no matched policies", "count": 1}

Never a secret, a signature or a body. Refusals of one kind (user, address, call, resource) are
written at most once a minute, with the number of those since.

The last lines stay in memory, whether a file is written or not: operators read those of all proxies
through any of them (rpc/access/audit_lines.py).
"""

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from popmq_common.errors import PopMQError
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError
from popmq_common.process.private_files import opened_privately
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.access.audit_tail import AuditTail
from popmq_proxy.core.access.model import Need
from popmq_proxy.rpc.shared.context import CallContext

STDOUT: Final = "-"
FILES_KEPT: Final = 10
EVERY_MS: Final = 60_000
"""Refusals of one kind are written no more often."""
KINDS_MAX: Final = 10_000
"""That are remembered; the oldest is forgotten first, with its count."""
LINE_CHARS_MAX: Final = 300
"""Of one field: clients choose names."""
Kind = tuple[str, str, str, str]
"""(user, address, call, resource)"""
Handler = Callable[[CallContext, Any], Awaitable[Any]]


class AuditTrail:
    def __init__(
        self,
        clock: Clock,
        lines: logging.Handler | None,
        count: Callable[[], None],
        tail: AuditTail | None = None,
    ) -> None:
        """`lines`: where they go beside memory; None: nowhere. `count` is called at each
        refusal."""
        self.tail = AuditTail() if tail is None else tail
        self._clock = clock
        self._lines = lines
        self._count = count
        self._refusals: OrderedDict[Kind, tuple[int, int]] = OrderedDict()
        """Kind → (when one was written, how many since)."""

    def refused(self, user: str, address: str, call: str, resource: str, reason: str) -> None:
        self._count()
        kind, now_ms = (user, address, call, resource), self._clock.now_ms()
        written_ms, since = self._refusals.pop(kind, (now_ms - EVERY_MS, 0))
        if now_ms - written_ms < EVERY_MS:
            self._refusals[kind] = written_ms, since + 1
            return
        while len(self._refusals) >= KINDS_MAX:
            self._refusals.popitem(last=False)
        self._refusals[kind] = now_ms, 0
        self._line("refused", user, address, call, resource, reason, count=since + 1)

    def recording(
        self, call: str, handler: Handler, needs: Callable[[Any], Iterable[Need]]
    ) -> Handler:
        """`handler`, whose calls are written with their outcome."""

        async def recorded(ctx: CallContext, request: Any) -> Any:
            outcome = "failed"
            try:
                response = await handler(ctx, request)
                outcome = "done"
                return response
            except PopMQError as refused:
                outcome = str(refused)
                raise
            finally:
                resource = ", ".join(str(need) for need in needs(request))
                target = _target(request)
                self._line("change", ctx.user, ctx.address, call, resource, outcome, target=target)

        return recorded

    def _line(
        self,
        what: str,
        user: str,
        address: str,
        call: str,
        resource: str,
        outcome: str,
        **more: int | str,
    ) -> None:
        now_ms = self._clock.now_ms()
        at = datetime.fromtimestamp(now_ms / 1_000, UTC)
        fields: dict[str, int | str] = {
            "at": at.isoformat(timespec="milliseconds"),
            "what": what,
            "user": user,
            "address": address,
            "call": call,
            "resource": resource,
            "outcome": outcome,
            **more,
        }
        short: dict[str, Any] = {
            name: value[:LINE_CHARS_MAX] if isinstance(value, str) else value
            for name, value in fields.items()
        }
        if self._lines is not None:
            self._lines.emit(logging.makeLogRecord({"msg": json.dumps(short)}))
        del short["at"]
        self.tail.add(link.AuditLine(at_ms=now_ms, **short))

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None


def _target(request: Any) -> str:
    """Which user or broker an operator's call is about, if it is about one."""
    for field in ("username", "subject", "broker"):
        if field in request.DESCRIPTOR.fields_by_name:
            return str(getattr(request, field))
    return ""


def lines_to(path: str, bytes_max: int) -> logging.Handler | None:
    """To a file that is followed by `FILES_KEPT` older ones, or to stdout; empty: nowhere.

    Raises `ConfigError`.
    """
    if not path:
        return None
    try:
        handler: logging.Handler
        if path == STDOUT:
            handler = logging.StreamHandler(sys.stdout)
        else:
            handler = PrivateFile(Path(path), maxBytes=bytes_max, backupCount=FILES_KEPT)
    except OSError as wrong:
        raise ConfigError(f"the audit trail {path} cannot be written: {wrong}") from wrong
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


class PrivateFile(RotatingFileHandler):
    """Readable by its owner alone."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=opened_privately)
