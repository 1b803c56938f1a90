"""What this proxy leaves with the brokers, for whoever asks another proxy: its settings, once, and
the lines of its audit trail as they come.

A broker says what it has. So one that starts again, or was away, gets what it lacks, as far as this
proxy still remembers it; nothing is told twice.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from popmq_common.errors import PopMQError
from popmq_common.process.settings_in_force import settings_in_force
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.access.audit_tail import AuditTail
from popmq_proxy.rpc.shared.context import Upstream

PREFIX: Final = "POPMQ_PROXY_"
TIMEOUT_MS: Final = 3_000
LINES_EACH: Final = 100
"""Of one report, as brokers take them."""
REPORTS_MAX: Final = 6
"""To one broker at a time: more than the tail has lines for."""
VALUE_CHARS_MAX: Final = 4_096


class ProxyReporter:
    def __init__(self, upstream: Upstream, tail: AuditTail) -> None:
        self._upstream = upstream
        self.tail = tail
        self.started_ms = upstream.clock.now_ms()
        self.settings: Sequence[link.Setting] = [
            link.Setting(name=one.name, value=one.value[:VALUE_CHARS_MAX], source=one.source)
            for one in settings_in_force(upstream.config, PREFIX)
        ]
        self._known: dict[str, link.ProxyReportReply] = {}
        """By broker: what it has."""

    async def tell(self, own_id: str, name: str, brokers: Iterable[str]) -> None:
        """One that does not answer, or is older, is told later."""
        names = list(brokers)
        self._known = {one: known for one, known in self._known.items() if one in names}
        asked = [self._tell(own_id, name, one) for one in names]
        for failed in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(failed, BaseException) and not isinstance(failed, PopMQError):
                raise failed

    async def _tell(self, own_id: str, name: str, broker: str) -> None:
        for _ in range(REPORTS_MAX):
            known = self._known.get(broker, link.ProxyReportReply(next_line=self.tail.written))
            lines = self.tail.since(known.next_line, LINES_EACH)
            report = link.ProxyReport(
                id=own_id,
                name=name,
                started_ms=self.started_ms,
                settings=() if known.knows_settings else self.settings,
                lines=lines,
            )
            call = link.Call(proxy_report=report)
            reply = (await self._upstream.call(broker, call, TIMEOUT_MS)).proxy_report
            self._known[broker] = reply
            if reply.knows_settings and reply.next_line >= self.tail.written:
                return
