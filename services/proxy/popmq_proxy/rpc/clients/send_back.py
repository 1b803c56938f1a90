"""popmq.consumer.v1 SendBack: a message that was pulled is redelivered through %RETRY%, or dies."""

from popmq_common.errors import BadRequest
from popmq_common.records.names import DEAD_LETTER_PREFIX, check_group
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.clients.offsets import broker_of
from popmq_proxy.rpc.messages.nack import REASON_CHARS_MAX
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class SendBackHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def send_back(
        self, ctx: CallContext, request: consumer.SendBackRequest
    ) -> consumer.SendBackResponse:
        """OK when the copy is on disk, at the broker that the message lies on.

        Raises `BadRequest`, `TopicNotFound`, `GroupNotFound`, `IllegalOffset`.
        """
        group, queue = ctx.stored(request.group), request.message_queue
        check_group(group)
        if len(request.reason) > REASON_CHARS_MAX:
            text = f"a reason of {len(request.reason)} characters, {REASON_CHARS_MAX} allowed"
            raise BadRequest(reason=text)
        back = link.SendBack(
            group=group,
            topic=ctx.stored(queue.topic),
            queue_id=queue.id,
            offset=request.offset,
            level=request.level,
            uncounted=request.uncounted,
            max_attempts=request.max_attempts,
            reason=request.reason,
            attempts=request.attempts,
        )
        if request.HasField("delay"):
            back.delay_ms = duration_ms(request.delay)
        call = link.Call(send_back=back)
        done = (
            await self._upstream.call_of_group(group, ctx.user, broker_of(queue), call)
        ).send_back
        return consumer.SendBackResponse(
            status=ok(), dead=done.topic.startswith(DEAD_LETTER_PREFIX), level=done.level
        )
