"""popmq.consumer.v1 ReportCounts: what a client has counted goes to a broker, for the audit."""

from typing import Final
from zlib import crc32

from popmq_common.errors import BadRequest, NoBroker, Unavailable
from popmq_common.records.count_report import (
    DIGEST_MAX,
    PREFIX_CHARS,
    ROWS_MAX,
    CountedAs,
    CountReport,
    CountRow,
    encode,
)
from popmq_common.records.names import check_group, check_topic
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.shared.context import CallContext, Upstream

_OF_PRODUCERS: Final = (CountedAs.SENT, CountedAs.REFUSED, CountedAs.UNKNOWN)
_KINDS: Final = {
    consumer.COUNTED_AS_SENT: CountedAs.SENT,
    consumer.COUNTED_AS_REFUSED: CountedAs.REFUSED,
    consumer.COUNTED_AS_UNKNOWN: CountedAs.UNKNOWN,
    consumer.COUNTED_AS_RECEIVED: CountedAs.RECEIVED,
    consumer.COUNTED_AS_ACKED: CountedAs.ACKED,
    consumer.COUNTED_AS_NACKED: CountedAs.NACKED,
    consumer.COUNTED_AS_REJECTED: CountedAs.REJECTED,
}


class CountReportsHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def report_counts(
        self, ctx: CallContext, request: consumer.ReportCountsRequest
    ) -> consumer.ReportCountsResponse:
        """OK when it is on the disk of a broker: always the same one while it answers.

        Raises `BadRequest`, `IllegalTopic`, `IllegalGroup`, `NoBroker`, `TooManyRequests`.
        """
        report = encode(_checked(ctx, request))
        brokers = await self._upstream.registered()
        first = crc32(ctx.client_id.encode()) % len(brokers)
        failed: Unavailable | None = None
        for broker in brokers[first:] + brokers[:first]:
            call = link.Call(report_counts=link.ReportCounts(report=report))
            try:
                await self._upstream.call(broker, call)
            except Unavailable as down:
                failed = down
            else:
                return consumer.ReportCountsResponse(status=ok())
        raise failed or NoBroker()


def _checked(ctx: CallContext, request: consumer.ReportCountsRequest) -> CountReport:
    prefix = request.id_prefix
    if len(request.rows) > ROWS_MAX:
        raise BadRequest(reason=f"{len(request.rows)} rows of counts, up to {ROWS_MAX} allowed")
    if len(prefix) != PREFIX_CHARS or not prefix.isascii() or not prefix.isalnum():
        raise BadRequest(reason=f"{prefix!r} is no beginning of message ids")
    if min(request.sequence, request.from_ms, request.until_ms, request.uncounted) < 0:
        raise BadRequest(reason="a report of counts with a number below 0")
    return CountReport(
        client_id=ctx.client_id,
        id_prefix=prefix,
        sequence=request.sequence,
        from_ms=request.from_ms,
        until_ms=request.until_ms,
        is_last=request.is_last,
        uncounted=request.uncounted,
        rows=tuple(_row(ctx, row) for row in request.rows),
    )


def _row(ctx: CallContext, row: consumer.CountRow) -> CountRow:
    kind = _KINDS.get(row.counted_as)
    if kind is None:
        raise BadRequest(reason=f"counts of {row.counted_as}, which is none of the kinds there are")
    if row.message_count < 1 or row.minute_ms < 0 or row.digest > DIGEST_MAX:
        raise BadRequest(reason="a row of counts without messages, minute or digest")
    topic, group = ctx.stored(row.topic), ""
    check_topic(topic)
    if kind not in _OF_PRODUCERS:
        group = ctx.stored(row.group)
        check_group(group)
    return CountRow(kind, topic, group, row.minute_ms, row.message_count, row.digest)
