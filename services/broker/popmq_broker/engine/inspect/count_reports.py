"""Reports of what clients have counted: kept in a topic of the broker's own, for the audit.

A client reports once a minute. Reports beyond `PER_MINUTE_MAX` are refused; their clients try again
a minute later, and if they give up, the audit sees by the report's number that one is missing.
"""

from typing import Final

from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import own_draft
from popmq_common.errors import BadRequest, TooManyRequests
from popmq_common.records.names import COUNTS_TOPIC
from popmq_common.units import KiB
from popmq_internal.v1 import link_pb2 as link

REPORT_BYTES_MAX: Final = 512 * KiB
PER_MINUTE_MAX: Final = 10_000
_MINUTE_MS: Final = 60_000
_TAG: Final = "counts"


class CountReports:
    def __init__(self, runtime: Runtime, topics: Topics) -> None:
        self._runtime = runtime
        self._topics = topics
        self._minute = 0
        self._in_minute = 0

    async def store(self, request: link.ReportCounts) -> link.Done:
        """Answered when it is on disk. Raises `BadRequest`, `TooManyRequests`, `DiskFull`."""
        if not 0 < len(request.report) <= REPORT_BYTES_MAX:
            text = f"a report of {len(request.report)} bytes, 1 to {REPORT_BYTES_MAX} allowed"
            raise BadRequest(reason=text)
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        self._take_place(now_ms // _MINUTE_MS)
        self._topics.ensure_system_copy_target(COUNTS_TOPIC)
        runtime.store.append([own_draft(COUNTS_TOPIC, _TAG, request.report, now_ms)], now_ms)
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()

    def _take_place(self, minute: int) -> None:
        if minute != self._minute:
            self._minute, self._in_minute = minute, 0
        if self._in_minute >= PER_MINUTE_MAX:
            raise TooManyRequests(what="reports of counts in a minute", limit=PER_MINUTE_MAX)
        self._in_minute += 1
