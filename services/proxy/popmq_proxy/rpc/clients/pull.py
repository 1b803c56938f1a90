"""PullMessage, and the Pull of popmq.consumer.v1: messages of one queue from an offset on.

One pull, two answers: theirs is a stream of messages with the next offset at its end, ours has the
queue's first and last offset too.
"""

from typing import Protocol

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest
from popmq_common.records.names import check_group, classic_retry_topic
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import validate
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.delivery import DeliveryEncoder
from popmq_proxy.core.messages.real_topic import real_topic
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.clients.offsets import broker_of
from popmq_proxy.rpc.messages.receive import BATCH_MAX, filter_of
from popmq_proxy.rpc.shared.answer import Answer
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.polls import while_it_lives

LOCKED = "mq is locked by other client."
"""DeFiBus's words."""


class PullRequest(Protocol):
    """What both requests have."""

    @property
    def group(self) -> v2.Resource: ...
    @property
    def message_queue(self) -> v2.MessageQueue: ...
    @property
    def filter_expression(self) -> v2.FilterExpression: ...
    @property
    def long_polling_timeout(self) -> Duration: ...
    @property
    def offset(self) -> int: ...
    @property
    def batch_size(self) -> int: ...


class PullHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def pull_message(self, ctx: CallContext, request: service.PullMessageRequest) -> Answer:
        """Status, messages, next offset."""
        found = await self._pull(ctx, request)
        status = _status(found, request.offset)
        responses = [
            service.PullMessageResponse(status=status).SerializeToString(),
            *_encoded(request.message_queue.topic, found),
            service.PullMessageResponse(next_offset=found.next_offset).SerializeToString(),
        ]
        return Answer(status.code, responses)

    async def pull(self, ctx: CallContext, request: consumer.PullRequest) -> consumer.PullResponse:
        """The same in one response; what a group had sent back comes under its own topic."""
        found = await self._pull(ctx, request)
        response = consumer.PullResponse(
            status=_status(found, request.offset),
            next_offset=found.next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            locked_by=found.locked_by,
        )
        topic, group = request.message_queue.topic, ctx.stored(request.group)
        if ctx.stored(topic) == classic_retry_topic(group):
            namespace = topic.resource_namespace or ctx.namespace
            encoded = [_of_real_topic(topic, namespace, record) for record in found.records]
        else:
            encoded = _encoded(topic, found)
        # A response with one message is field 2, as the messages here are.
        response.MergeFromString(b"".join(encoded))
        return response

    async def _pull(self, ctx: CallContext, request: PullRequest) -> link.PullReply:
        upstream, queue = self._upstream, request.message_queue
        group, topic = ctx.stored(request.group), ctx.stored(queue.topic)
        check_group(group)
        if request.batch_size < 1:
            raise BadRequest(reason=f"batch size {request.batch_size}, at least 1 is needed")
        kind, expression = filter_of(request.filter_expression)
        asked_ms = max(0, duration_ms(request.long_polling_timeout))
        pull = link.Pull(
            group=group,
            topic=topic,
            queue_id=queue.id,
            offset=request.offset,
            batch_size=min(request.batch_size, BATCH_MAX),
            poll_ms=validate.poll_ms(
                asked_ms, None, ctx.remaining_ms(), upstream.config.poll_ms_max
            ),
            filter_kind=kind,
            filter_expression=expression,
            client_id=ctx.client_id,
        )
        timeout_ms = pull.poll_ms + upstream.config.call_timeout_ms
        session = upstream.sessions.seen(ctx.client_id, upstream.clock.now_ms())
        call = link.Call(pull=pull)
        poll = upstream.call_of_group(group, ctx.user, broker_of(queue), call, timeout_ms)
        reply = await while_it_lives(session, poll)
        return link.PullReply(next_offset=request.offset) if reply is None else reply.pull


def _encoded(topic: v2.Resource, found: link.PullReply) -> list[bytes]:
    encoder = DeliveryEncoder(topic, None)
    return [encoder.response("", record) for record in found.records]


def _of_real_topic(pulled: v2.Resource, namespace: str, record: bytes) -> bytes:
    topic = real_topic(record, pulled, namespace)
    return DeliveryEncoder(topic, None).response("", record)


def _status(found: link.PullReply, offset: int) -> v2.Status:
    if found.records:
        return ok()
    if found.locked_by:
        return v2.Status(code=v2.MESSAGE_NOT_FOUND, message=LOCKED)
    if found.corrected:
        text = f"the queue has {found.min_offset} to {found.max_offset}, not {offset}"
        if found.min_offset <= offset <= found.max_offset:
            text = f"the group is no longer at {offset}: it was reset, or others have consumed it"
        text += f"; go on at {found.next_offset}"
        return v2.Status(code=v2.ILLEGAL_OFFSET, message=text)
    return v2.Status(code=v2.MESSAGE_NOT_FOUND, message="no new message")
