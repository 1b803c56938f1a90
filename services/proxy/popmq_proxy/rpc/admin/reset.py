"""popmq.admin.v1 ResetOffsets: a group goes on elsewhere, on every broker of the topic."""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, NoPermission, TopicNotFound
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class ResetHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def reset_offsets(
        self, ctx: CallContext, request: admin.ResetOffsetsRequest
    ) -> admin.ResetOffsetsResponse:
        """By queue, where the group was and where it goes on.

        Broker after broker: when one fails, those before it have changed, and the same call again
        does the rest. Raises `GroupNotFound`, `TopicNotFound`, `NoPermission`, `IllegalOffset`,
        `BadRequest`.
        """
        reset = _broker_call(request)
        brokers = (await self._upstream.routes.routes(request.topic)).readable_brokers
        if not brokers:
            raise NoPermission(topic=request.topic, action="readable")
        if request.broker:
            await self._upstream.registered(request.broker)
            brokers = [broker for broker in brokers if broker == request.broker]
        if not brokers:
            raise TopicNotFound(topic=request.topic)
        response = admin.ResetOffsetsResponse()
        for broker in brokers:
            call = link.Call(reset_offsets=reset)
            reply = (await self._upstream.call(broker, call)).reset_offsets
            response.retries_dropped += reply.retries_dropped
            for queue in reply.queues:
                response.queues.add(
                    broker=broker,
                    queue_id=queue.queue_id,
                    from_offset=queue.from_offset,
                    to_offset=queue.to_offset,
                    fenced=queue.fenced,
                )
        return response


def _broker_call(request: admin.ResetOffsetsRequest) -> link.ResetOffsets:
    reset = link.ResetOffsets(group=request.group, topic=request.topic, dry_run=request.dry_run)
    one_queue = bool(request.broker) and request.HasField("queue_id")
    if one_queue:
        reset.queue_id = request.queue_id
    elif request.broker or request.HasField("queue_id"):
        raise BadRequest(reason="one queue is named by its broker and its number")
    match request.WhichOneof("target"):
        case "earliest":
            reset.at = link.OFFSET_AT_MIN
        case "latest":
            reset.at = link.OFFSET_AT_MAX
        case "time_ms":
            reset.at, reset.time_ms = link.OFFSET_AT_TIME, request.time_ms
        case "offset" if one_queue:
            reset.offset = request.offset
        case "offset":
            raise BadRequest(reason="an offset means something in one queue; name broker and queue")
        case _:
            raise BadRequest(reason="no target: earliest, latest, a time or an offset")
    return reset
