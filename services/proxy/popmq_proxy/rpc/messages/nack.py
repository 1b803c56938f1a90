"""Nack and NackRuns of popmq.consumer.v1: messages given back, or up."""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import BadRequest
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.status import common
from popmq_proxy.rpc.messages.by_broker import (
    ENTRIES_MAX,
    at_their_brokers,
    runs_at_their_brokers,
    runs_not_served,
    still_held,
)
from popmq_proxy.rpc.shared.context import CallContext, Upstream

REASON_CHARS_MAX = 16_384
"""Of a request; the broker keeps its beginning."""
AS_THE_POLICY_SAYS = -1


class NackHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def nack(self, ctx: CallContext, request: consumer.NackRequest) -> consumer.NackResponse:
        """One entry per handle, in order; all handles of a broker go there in one call.

        Raises `BadRequest`.
        """
        if not 1 <= len(request.entries) <= ENTRIES_MAX:
            raise BadRequest(reason=f"{len(request.entries)} entries, 1 to {ENTRIES_MAX} allowed")
        nack = self._checked(ctx, request)

        async def ask(broker: str, handles: list[str], alone: bool) -> list[v2.Status]:
            nack.handles[:] = handles
            return await self._nack_at(broker, nack)

        handles = [entry.receipt_handle for entry in request.entries]
        done = await at_their_brokers(handles, nack.group, nack.topic, ask)
        return consumer.NackResponse(
            status=common(done),
            entries=[
                consumer.NackResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
                )
                for entry, status in zip(request.entries, done, strict=True)
            ],
        )

    async def nack_runs(
        self, ctx: CallContext, request: consumer.NackRunsRequest
    ) -> consumer.NackRunsResponse:
        """The same of many messages by one handle; only what is refused is named."""
        nack = self._checked(ctx, request)

        async def ask(
            _: CallContext | None, broker: str, runs: list[link.RunPart]
        ) -> list[v2.Status]:
            del nack.runs[:]
            nack.runs.extend(runs)
            return await self._nack_at(broker, nack)

        status, refusals = await runs_at_their_brokers(
            ctx, nack.group, nack.topic, request.runs, ask
        )
        return consumer.NackRunsResponse(status=status, refusals=refusals)

    def _checked(
        self, ctx: CallContext, request: consumer.NackRequest | consumer.NackRunsRequest
    ) -> link.Nack:
        """The broker's call, without leases."""
        if request.kind not in _KINDS:
            raise BadRequest(reason="the nack has no kind: COUNTED, UNCOUNTED or FATAL")
        if len(request.reason) > REASON_CHARS_MAX:
            text = f"a reason of {len(request.reason)} characters, {REASON_CHARS_MAX} allowed"
            raise BadRequest(reason=text)
        delay_ms = AS_THE_POLICY_SAYS
        if request.HasField("delay"):
            delay_ms = duration_ms(request.delay)
            limit_ms = self._upstream.config.invisible_ms_max
            if not 0 <= delay_ms <= limit_ms:
                raise BadRequest(reason=f"a delay of {delay_ms} ms, 0 to {limit_ms} ms allowed")
        return link.Nack(
            group=ctx.stored(request.group),
            topic=ctx.stored(request.topic),
            kind=_KINDS[request.kind],
            delay_ms=delay_ms,
            reason=request.reason,
        )

    async def _nack_at(self, broker: str, nack: link.Nack) -> list[v2.Status]:
        """One status per lease."""
        count = len(nack.handles) + sum(len(run.queue_offsets) for run in nack.runs)
        reply = await self._upstream.call(broker, link.Call(nack=nack))
        if len(reply.nack.outcomes) != count:
            return [runs_not_served(broker)] * count
        return [still_held(outcome) for outcome in reply.nack.outcomes]


_KINDS = {
    consumer.NACK_KIND_COUNTED: link.NACK_KIND_COUNTED,
    consumer.NACK_KIND_UNCOUNTED: link.NACK_KIND_UNCOUNTED,
    consumer.NACK_KIND_FATAL: link.NACK_KIND_FATAL,
}
