"""A client's counts on their way to the server: a report a minute, as long as there is something.

A report that is not answered is told again with the next one, under the same number; of those that
no server takes, the oldest are dropped, and the audit sees that numbers are missing.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from typing import Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.counts import DIGEST_MASK, MINUTE_MS, CountKey, Counts, CountsTaken, MessageFate
from popmq._core.messages.ids import MessageIds
from popmq.connection.connection import Connection
from popmq.connection.pause import pause
from popmq.connection.unknown_calls import is_unknown
from popmq.errors import PopMQClientError, RefusedByServer, ServerUnreachable, check
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger(__name__)
REPORT_S: Final = 60.0
REFUSED_S: Final = 600.0
"""Nothing is told for so long after the server, or its policies, refused it."""
UNANSWERED_MAX: Final = 10
"""Reports that wait to be told again."""
PREFIX_CHARS: Final = 18
"""Of an id: version, six bytes for the machine, two for the process."""
_LATER: Final = (
    v2.REQUEST_TIMEOUT,
    v2.INTERNAL_SERVER_ERROR,
    v2.HA_NOT_AVAILABLE,
    v2.MASTER_PERSISTENCE_TIMEOUT,
    v2.SLAVE_PERSISTENCE_TIMEOUT,
)
"""Answers that another minute may change, beside those that are retriable for every call."""


class CountReporter:
    """Of one client, which has message ids of its own: the audit tells by them what it has sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.counts = Counts(_now_ms())
        node = int.from_bytes(secrets.token_bytes(6))
        process = int.from_bytes(secrets.token_bytes(2))
        self.ids = MessageIds(node, process, int(time.time()))
        self._prefix = self.ids.next()[:PREFIX_CHARS]
        self._unanswered: deque[CountsTaken] = deque(maxlen=UNANSWERED_MAX)
        self._reporting: asyncio.Task[None] | None = None
        self._refused_until_s = float("-inf")

    def begin(self) -> None:
        """Report from now on; in the client's loop."""
        if self._reporting is None:
            self._reporting = asyncio.create_task(self._report())

    def deliveries(self, counted_as: MessageFate, messages: list[ReceivedMessage]) -> None:
        """Of one topic and group."""
        if messages:
            first = messages[0]
            ids = [message.message_id for message in messages]
            handles = [message.receipt_handle for message in messages]
            self.counts.deliveries(counted_as, first.topic, first.group, ids, handles)

    async def close(self, within_s: float) -> None:
        """What is left, with the word that it is the last, again and again until a server takes it;
        of what is not taken in time the audit says that it is missing."""
        if self._reporting is None:
            return
        self._reporting.cancel()
        await asyncio.gather(self._reporting, return_exceptions=True)
        failures = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._tell(is_last=True)
                while self._unanswered and not self._refused():
                    failures += 1
                    await pause(failures)
                    await self._tell_again()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            await self._tell(is_last=False)

    async def _tell(self, *, is_last: bool) -> None:
        report = self.counts.take(_now_ms(), is_last=is_last)
        if report is not None:
            self._unanswered.append(report)
        await self._tell_again()

    async def _tell_again(self) -> None:
        while self._unanswered and not self._refused():
            if not await self._told(self._unanswered[0]):
                return
            self._unanswered.popleft()

    def _refused(self) -> bool:
        return time.monotonic() < self._refused_until_s

    async def _told(self, report: CountsTaken) -> bool:
        connection = self._connection
        try:
            ask = connection.consumer.ReportCounts
            response = await connection.ask(ask, self._request(report), attempts=1)
            check(response.status)
        except PopMQClientError as failed:
            if _is_refused(failed):
                self._refused_until_s = time.monotonic() + REFUSED_S
                text = "the server takes no counts for the audit: %s"
                log.warning(text, failed, extra=fields(None, failed))
            else:
                log.info("counts for the audit are told again later: %s", failed)
            return False
        return True

    def _request(self, report: CountsTaken) -> consumer.ReportCountsRequest:
        return consumer.ReportCountsRequest(
            id_prefix=self._prefix,
            sequence=report.sequence,
            from_ms=report.from_ms,
            until_ms=report.until_ms,
            is_last=report.is_last,
            uncounted=report.uncounted,
            rows=[
                self._row(key, count.messages, count.digest) for key, count in report.rows.items()
            ],
        )

    def _row(self, key: CountKey, messages: int, digest: int) -> consumer.CountRow:
        resource = self._connection.resource
        return consumer.CountRow(
            counted_as=consumer.CountedAs.ValueType(key.counted_as),
            topic=resource(key.topic),
            group=resource(key.group) if key.group else None,
            minute_ms=key.minute * MINUTE_MS,
            message_count=messages,
            digest=digest & DIGEST_MASK,
        )


def _is_refused(failed: PopMQClientError) -> bool:
    """By a server that does not know the call, or does not allow it."""
    if isinstance(failed, ServerUnreachable):
        return is_unknown(failed)
    if not isinstance(failed, RefusedByServer) or failed.retriable:
        return False
    return failed.code not in _LATER


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
