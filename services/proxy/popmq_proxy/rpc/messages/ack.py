"""By receipt handle: AckMessage, AckRuns, ChangeInvisibleDuration, ExtendRuns, and
ForwardMessageToDeadLetterQueue."""

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest, IllegalInvisibleTime, PopMQError
from popmq_common.records import receipt
from popmq_common.words import counted
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.status import OK, common, ok, status_of
from popmq_proxy.rpc.messages.by_broker import (
    ENTRIES_MAX,
    at_their_brokers,
    lease_status,
    runs_at_their_brokers,
    runs_not_served,
    still_held,
)
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class AckHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def ack_message(
        self, ctx: CallContext, request: service.AckMessageRequest
    ) -> service.AckMessageResponse:
        """One entry per handle, in order; all handles of a broker go there in one call."""
        if not 1 <= len(request.entries) <= ENTRIES_MAX:
            raise BadRequest(reason=f"{len(request.entries)} entries, 1 to {ENTRIES_MAX} allowed")
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)

        async def ask(broker: str, handles: list[str], alone: bool) -> list[v2.Status]:
            ack = link.Ack(group=group, topic=topic, handles=handles)
            return await self._ack_at(ctx if alone else None, broker, ack)

        handles = [entry.receipt_handle for entry in request.entries]
        done = await at_their_brokers(handles, group, topic, ask)
        return service.AckMessageResponse(
            status=common(done),
            entries=[
                service.AckMessageResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
                )
                for entry, status in zip(request.entries, done, strict=True)
            ],
        )

    async def ack_runs(
        self, ctx: CallContext, request: consumer.AckRunsRequest
    ) -> consumer.AckRunsResponse:
        """The same for our SDK: many messages by one handle, and only what is refused is named."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)

        async def ask(
            waits: CallContext | None, broker: str, runs: list[link.RunPart]
        ) -> list[v2.Status]:
            return await self._ack_at(waits, broker, link.Ack(group=group, topic=topic, runs=runs))

        status, refusals = await runs_at_their_brokers(ctx, group, topic, request.runs, ask)
        return consumer.AckRunsResponse(status=status, refusals=refusals)

    async def extend_runs(
        self, ctx: CallContext, request: consumer.ExtendRunsRequest
    ) -> consumer.ExtendRunsResponse:
        """ChangeInvisibleDuration for our SDK: by runs, and handles stay as they are."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)
        invisible_ms = self._invisible_ms(request.invisible_duration)

        async def ask(
            waits: CallContext | None, broker: str, runs: list[link.RunPart]
        ) -> list[v2.Status]:
            extend = link.Extend(group=group, topic=topic, runs=runs, invisible_ms=invisible_ms)
            call, handles = link.Call(extend=extend), [run.handle for run in runs]
            reply = await self._at(waits, broker, call, handles)
            return [still_held(outcome) for outcome in reply.extend.outcomes]

        status, refusals = await runs_at_their_brokers(ctx, group, topic, request.runs, ask)
        return consumer.ExtendRunsResponse(status=status, refusals=refusals)

    async def _ack_at(
        self, waits: CallContext | None, broker: str, ack: link.Ack
    ) -> list[v2.Status]:
        """One status per lease. `waits`: the call, if it may wait for this broker."""
        call = link.Call(ack=ack)
        handles = [*ack.handles, *(run.handle for run in ack.runs)]
        count = len(ack.handles) + sum(len(run.queue_offsets) for run in ack.runs)
        reply = await self._at(waits, broker, call, handles)
        if len(reply.ack.outcomes) != count:  # an older broker, which passes over runs
            return [runs_not_served(broker)] * count
        if reply.ack.outcomes == [link.LEASE_OUTCOME_DONE] * count:
            return [OK] * count
        return [lease_status(outcome) for outcome in reply.ack.outcomes]

    async def _at(
        self, waits: CallContext | None, broker: str, call: link.Call, handles: list[str]
    ) -> link.Reply:
        """`waits`: the call, if it may wait for this broker."""
        if waits is None:
            return await self._upstream.call(broker, call)
        return await self._upstream.call_there(waits, broker, call, handles=handles)

    def _invisible_ms(self, duration: Duration) -> int:
        invisible_ms, limit_ms = duration_ms(duration), self._upstream.config.invisible_ms_max
        if not 0 <= invisible_ms <= limit_ms:
            what = "small" if invisible_ms < 0 else "large"
            reason = f"the invisibleTime is too {what}: {invisible_ms} ms, 0 to {limit_ms} ms"
            raise IllegalInvisibleTime(reason=reason)
        return invisible_ms

    async def change_invisible_duration(
        self, ctx: CallContext, request: service.ChangeInvisibleDurationRequest
    ) -> service.ChangeInvisibleDurationResponse:
        """The new handle, or the old one beside a status that is not OK."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)
        try:
            handle, status = await self._change(ctx, group, topic, request)
        except PopMQError as error:
            handle, status = request.receipt_handle, status_of(error)
        return service.ChangeInvisibleDurationResponse(status=status, receipt_handle=handle)

    async def _change(
        self,
        ctx: CallContext,
        group: str,
        topic: str,
        request: service.ChangeInvisibleDurationRequest,
    ) -> tuple[str, v2.Status]:
        invisible_ms = self._invisible_ms(request.invisible_duration)
        broker = receipt.broker_of(request.receipt_handle, group, topic)
        change = link.ChangeInvisible(
            group=group, topic=topic, handle=request.receipt_handle, invisible_ms=invisible_ms
        )
        call = link.Call(change_invisible=change)
        reply = await self._upstream.call_there(ctx, broker, call, handles=[change.handle])
        status = still_held(reply.change_invisible.outcome)
        if status.code != v2.OK:
            return request.receipt_handle, status
        return reply.change_invisible.handle, status

    async def forward(
        self, ctx: CallContext, request: service.ForwardMessageToDeadLetterQueueRequest
    ) -> service.ForwardMessageToDeadLetterQueueResponse:
        """OK also when the message is gone: clients repeat anything else for ever."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)
        forward = link.ForwardDeadLetter(
            group=group,
            topic=topic,
            message_id=request.message_id,
            reason="forwarded by the consumer after "
            + counted(request.delivery_attempt, "attempt"),
        )
        if request.receipt_handle:
            broker = receipt.broker_of(request.receipt_handle, group, topic)
            forward.handle = request.receipt_handle
            call = link.Call(forward_dead_letter=forward)
            await self._upstream.call_there(ctx, broker, call, handles=[forward.handle])
        else:
            for broker in (await self._upstream.topic_routes(topic, ctx.user)).readable_brokers:
                await self._upstream.call(broker, link.Call(forward_dead_letter=forward))
        return service.ForwardMessageToDeadLetterQueueResponse(status=ok())
