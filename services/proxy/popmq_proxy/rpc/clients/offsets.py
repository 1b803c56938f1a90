"""UpdateOffset, GetOffset, QueryOffset: a consumer's place in a queue, kept by the broker."""

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest, OffsetNotFound
from popmq_common.records.names import check_group, is_user_topic
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import convert
from popmq_proxy.core.messages.status import ok
from popmq_proxy.core.routing.group_starts import From
from popmq_proxy.rpc.shared.context import CallContext, Upstream

_AT = {
    v2.BEGINNING: link.OFFSET_AT_MIN,
    v2.END: link.OFFSET_AT_MAX,
    v2.TIMESTAMP: link.OFFSET_AT_TIME,
}
_FROM = {v2.BEGINNING: "FIRST", v2.END: "LAST", v2.TIMESTAMP: "TIME"}


class OffsetsHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def update_offset(
        self, ctx: CallContext, request: service.UpdateOffsetRequest
    ) -> service.UpdateOffsetResponse:
        """OK when the offset, or a later one, is on disk."""
        queue = request.message_queue
        group, topic = ctx.stored(request.group), ctx.stored(queue.topic)
        commit = link.CommitOffset(
            group=group,
            topic=topic,
            queue_id=queue.id,
            offset=request.offset,
            client_id=ctx.client_id,
        )
        call = link.Call(commit_offset=commit)
        await self._upstream.call_of_group(group, ctx.user, broker_of(queue), call)
        return service.UpdateOffsetResponse(status=ok())

    async def get_offset(
        self, ctx: CallContext, request: service.GetOffsetRequest
    ) -> service.GetOffsetResponse:
        """OFFSET_NOT_FOUND when the group has none there yet. At a broker that was added, or away,
        when the group started in the topic it has one now."""
        upstream, queue = self._upstream, request.message_queue
        group, topic, broker = ctx.stored(request.group), ctx.stored(queue.topic), broker_of(queue)
        call = link.Call(get_offset=link.GetOffset(group=group, topic=topic, queue_id=queue.id))
        try:
            reply = await upstream.call_of_group(group, ctx.user, broker, call)
        except OffsetNotFound:
            if not is_user_topic(topic):
                raise
            brokers = (await upstream.topic_routes(topic, ctx.user)).readable_brokers
            if not await upstream.starts.catch_up(group, topic, broker, brokers):
                raise
            reply = await upstream.call(broker, call)
        return service.GetOffsetResponse(status=ok(), offset=reply.offset.offset)

    async def fix_start(
        self, ctx: CallContext, request: consumer.FixStartRequest
    ) -> consumer.FixStartResponse:
        """OK when every broker of the topic that answers has the start on its disk."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)
        check_group(group)
        time_ms = _time_ms(request.policy, request)
        start = From(_FROM[request.policy], time_ms)
        found = await self._upstream.topic_routes(topic, ctx.user)
        await self._upstream.group(group, ctx.user)  # made on first use
        await self._upstream.starts.fix(group, topic, found.readable_brokers, start)
        return consumer.FixStartResponse(status=ok())

    async def query_offset(
        self, ctx: CallContext, request: service.QueryOffsetRequest
    ) -> service.QueryOffsetResponse:
        """The queue's start, its end, or the first message stored at a time or later."""
        queue = request.message_queue
        policy = request.query_offset_policy
        time_ms = _time_ms(policy, request)
        find = link.FindOffset(
            topic=ctx.stored(queue.topic), queue_id=queue.id, at=_AT[policy], time_ms=time_ms
        )
        reply = await self._upstream.call(broker_of(queue), link.Call(find_offset=find))
        return service.QueryOffsetResponse(status=ok(), offset=reply.offset.offset)


def _time_ms(
    policy: "v2.QueryOffsetPolicy.ValueType",
    request: service.QueryOffsetRequest | consumer.FixStartRequest,
) -> int:
    """Of the policy TIMESTAMP, else 0. Raises `BadRequest`."""
    if policy not in _AT:
        raise BadRequest(reason=f"query offset policy {policy}, 0 to 2")
    if policy != v2.TIMESTAMP:
        return 0
    if not request.HasField("timestamp") or not convert.is_valid(request.timestamp):
        raise BadRequest(reason="the policy TIMESTAMP needs a timestamp")
    return convert.millis(request.timestamp)


def broker_of(queue: v2.MessageQueue) -> str:
    """Whose queue it is: a queue id alone names one on each broker."""
    if not queue.broker.name:
        raise BadRequest(reason="the message queue names no broker; QueryRoute tells the names")
    return queue.broker.name
