"""UpdateOffset, GetOffset, QueryOffset: a consumer's place in a queue, kept by the broker."""

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core import convert
from popmq_proxy.core.status import ok
from popmq_proxy.rpc.context import CallContext, Upstream

_AT = {
    v2.BEGINNING: link.OFFSET_AT_MIN,
    v2.END: link.OFFSET_AT_MAX,
    v2.TIMESTAMP: link.OFFSET_AT_TIME,
}


class Offsets:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def update_offset(
        self, ctx: CallContext, request: service.UpdateOffsetRequest
    ) -> service.UpdateOffsetResponse:
        """OK when the offset, or a later one, is on disk."""
        queue = request.message_queue
        group, topic = ctx.stored(request.group), ctx.stored(queue.topic)
        await self._upstream.group(group)  # made on first use
        commit = link.CommitOffset(
            group=group,
            topic=topic,
            queue_id=queue.id,
            offset=request.offset,
            client_id=ctx.client_id,
        )
        await self._upstream.call(broker_of(queue), link.Call(commit_offset=commit))
        return service.UpdateOffsetResponse(status=ok())

    async def get_offset(
        self, ctx: CallContext, request: service.GetOffsetRequest
    ) -> service.GetOffsetResponse:
        """OFFSET_NOT_FOUND when the group has none there yet."""
        queue = request.message_queue
        get = link.GetOffset(
            group=ctx.stored(request.group), topic=ctx.stored(queue.topic), queue_id=queue.id
        )
        await self._upstream.group(get.group)
        reply = await self._upstream.call(broker_of(queue), link.Call(get_offset=get))
        return service.GetOffsetResponse(status=ok(), offset=reply.offset.offset)

    async def query_offset(
        self, ctx: CallContext, request: service.QueryOffsetRequest
    ) -> service.QueryOffsetResponse:
        """The queue's start, its end, or the first message stored at a time or later."""
        queue = request.message_queue
        if request.query_offset_policy not in _AT:
            raise BadRequest(reason=f"query offset policy {request.query_offset_policy}, 0 to 2")
        find = link.FindOffset(
            topic=ctx.stored(queue.topic), queue_id=queue.id, at=_AT[request.query_offset_policy]
        )
        if find.at == link.OFFSET_AT_TIME:
            if not request.HasField("timestamp") or not convert.is_valid(request.timestamp):
                raise BadRequest(reason="the policy TIMESTAMP needs a timestamp")
            find.time_ms = convert.millis(request.timestamp)
        reply = await self._upstream.call(broker_of(queue), link.Call(find_offset=find))
        return service.QueryOffsetResponse(status=ok(), offset=reply.offset.offset)


def broker_of(queue: v2.MessageQueue) -> str:
    """Whose queue it is: a queue id alone names one on each broker."""
    if not queue.broker.name:
        raise BadRequest(reason="the message queue names no broker; QueryRoute tells the names")
    return queue.broker.name
