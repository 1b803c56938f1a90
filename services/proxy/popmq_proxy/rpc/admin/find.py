"""popmq.admin.v1: messages by id, by key, by their place; all brokers are asked."""

from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, NotFound, TopicNotFound
from popmq_common.records import properties as names
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream

COUNT_DEFAULT: Final = 32
COUNT_MAX: Final = 64
HEAD_BYTES: Final = 256
"""Of a body, when nobody asks for all of it."""
WHOLE_BYTES: Final = 1 << 40
PEEK_COUNT_DEFAULT: Final = 25
PEEK_SCANNED_DEFAULT: Final = 1_000
TIMEOUT_MS: Final = 15_000
"""A broker may have to bring its index up to date first."""


class FindHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def find(
        self, ctx: CallContext, request: admin.FindMessagesRequest
    ) -> admin.FindMessagesResponse:
        """Newest first. Raises `TopicNotFound` when no broker has the topic, and what a broker
        says: the answer of some of them would not be all there is."""
        count_max = request.count_max or COUNT_DEFAULT
        if not 0 < count_max <= COUNT_MAX:
            raise BadRequest(reason=f"{count_max} messages, at most {COUNT_MAX} by one request")
        call = link.FindMessages(
            topic=request.topic,
            key=request.key,
            id_only=request.id_only,
            count_max=count_max,
            from_ms=request.from_ms,
            until_ms=request.until_ms,
            system=request.system,
            body_bytes_max=WHOLE_BYTES if request.whole else HEAD_BYTES,
        )
        replies = await self._ask(link.Call(find_messages=call), request.topic)
        found = _merged(replies)
        return admin.FindMessagesResponse(
            messages=found[:count_max],
            incomplete=any(reply.incomplete for reply in replies.values()),
        )

    async def get(
        self, ctx: CallContext, request: admin.GetMessageRequest
    ) -> admin.GetMessageResponse:
        """Raises `TopicNotFound`."""
        call = link.GetMessage(
            topic=request.topic,
            queue_id=request.queue_id,
            offset=request.offset,
            system=request.system,
        )
        replies = await self._ask(link.Call(get_message=call), request.topic, request.broker)
        return admin.GetMessageResponse(messages=_merged(replies))

    async def peek(
        self, ctx: CallContext, request: admin.PeekMessagesRequest
    ) -> admin.PeekMessagesResponse:
        """Raises `BrokerNotFound`, `TopicNotFound`, `IllegalFilter`, `BadRequest`."""
        if not request.broker:
            raise BadRequest(reason="say which broker's queue is looked through")
        if request.tag and request.sql:
            raise BadRequest(reason="filter by tag or by SQL, not by both")
        await self._upstream.registered(request.broker)
        call = link.PeekMessages(
            topic=request.topic,
            queue_id=request.queue_id,
            offset=request.offset,
            backwards=request.backwards,
            filter_kind=_filter_kind(request),
            filter_expression=request.sql or request.tag,
            count_max=request.count_max or PEEK_COUNT_DEFAULT,
            scanned_max=request.scanned_max or PEEK_SCANNED_DEFAULT,
            system=request.system,
            body_bytes_max=WHOLE_BYTES if request.whole else HEAD_BYTES,
        )
        wanted = link.Call(peek_messages=call)
        found = (await self._upstream.call(request.broker, wanted, TIMEOUT_MS)).peek_messages
        return admin.PeekMessagesResponse(
            messages=[_message(request.broker, one) for one in found.messages],
            scanned=found.scanned,
            next_offset=found.next_offset,
            more=found.more,
            unreadable=found.unreadable,
        )

    async def _ask(
        self, call: link.Call, topic: str, only: str = ""
    ) -> dict[str, link.FoundMessages]:
        """Answers by broker; one that does not have the topic is passed over."""
        replies = {}
        for broker in await self._upstream.registered(only):
            own = link.Call()
            own.CopyFrom(call)
            try:
                reply = await self._upstream.call(broker, own, TIMEOUT_MS)
            except NotFound:
                continue
            replies[broker] = reply.found_messages
        if not replies:
            raise TopicNotFound(topic=topic)
        return replies


def _filter_kind(request: admin.PeekMessagesRequest) -> "link.FilterKind.ValueType":
    if request.sql:
        return link.FILTER_KIND_SQL
    return link.FILTER_KIND_TAG if request.tag else link.FILTER_KIND_ALL


def _merged(replies: dict[str, link.FoundMessages]) -> list[admin.StoredMessage]:
    """Of all brokers, newest first."""
    found = [
        _message(broker, message) for broker, reply in replies.items() for message in reply.messages
    ]
    return sorted(found, key=lambda one: (one.stored_ms, one.log_offset), reverse=True)


def _message(broker: str, message: link.StoredMessage) -> admin.StoredMessage:
    properties = dict(message.properties)
    return admin.StoredMessage(
        broker=broker,
        topic=message.topic,
        queue_id=message.queue_id,
        offset=message.offset,
        log_offset=message.log_offset,
        message_id=properties.get(names.UNIQ_KEY, ""),
        keys=properties.get(names.KEYS, "").split(),
        tag=properties.get(names.TAGS, ""),
        message_group=properties.get(names.SHARDING_KEY, ""),
        stored_ms=message.stored_ms,
        born_ms=message.born_ms,
        delivery_attempt=message.reconsume_times + 1,
        body_bytes=message.body_bytes,
        body=message.body,
        properties=properties,
        compressed=message.compressed,
    )
