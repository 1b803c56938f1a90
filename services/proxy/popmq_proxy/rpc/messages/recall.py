"""RecallMessage: a delayed message that shall not come, by the handle its send was answered with.

OK                     it will never be delivered; also when that was answered before
BAD_REQUEST            its time has come; or the handle is of another topic or cluster, or none
MESSAGE_NOT_FOUND      nothing waits under this handle
"""

from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import InvalidRecallHandle
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import recall_handle
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class RecallHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def recall_message(
        self, ctx: CallContext, request: service.RecallMessageRequest
    ) -> service.RecallMessageResponse:
        """Raises `InvalidRecallHandle`, `TopicNotFound`, `RecallTooLate`, `NothingToRecall`."""
        topic = ctx.stored(request.topic)
        await self._upstream.topic_routes(topic, ctx.user)
        handle = recall_handle.decode(request.recall_handle, topic)
        await self._upstream.routes.brokers()
        if not self._upstream.routes.knows(handle.broker):  # one in a restart is known
            reason = f"it is of broker {handle.broker!r}, which is not registered"
            raise InvalidRecallHandle(reason=reason)
        recall = link.Recall(topic=topic, message_id=handle.message_id, due_ms=handle.due_ms)
        await self._upstream.call_there(ctx, handle.broker, link.Call(recall=recall))
        return service.RecallMessageResponse(status=ok(), message_id=handle.message_id)
