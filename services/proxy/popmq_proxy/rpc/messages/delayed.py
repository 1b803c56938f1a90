"""popmq.admin.v1 ListDelayed: delayed messages of all brokers, in the order in which they are due.

A broker looks at a bounded number of entries. So one may have come less far in time than another,
and what is due behind that is shown by a later page: pages are in order, too.
"""

from collections.abc import Mapping
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, NotFound, TopicNotFound
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import delayed_cursor
from popmq_proxy.core.messages.delayed_cursor import Place
from popmq_proxy.core.messages.recall_handle import RecallHandle, encode
from popmq_proxy.rpc.shared.context import CallContext, Upstream

COUNT_DEFAULT: Final = 50
COUNT_MAX: Final = 200
TIMEOUT_MS: Final = 10_000
FIRST: Final[Place] = (-1, -1)


class DelayedHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def list_all(
        self, ctx: CallContext, request: admin.ListDelayedRequest
    ) -> admin.ListDelayedResponse:
        """Raises `BadRequest`, `TopicNotFound` when no broker has the topic, and what a broker
        fails with: a list without some would not be in order."""
        count_max = request.count_max or COUNT_DEFAULT
        if not 0 < count_max <= COUNT_MAX:
            raise BadRequest(reason=f"{count_max} messages, at most {COUNT_MAX} by one request")
        places: dict[str, Place | None] = dict.fromkeys(await self._upstream.registered(), FIRST)
        if request.cursor:
            known = delayed_cursor.decode(request.cursor)
            places = {name: known.get(name, FIRST) for name in places}
        replies = await self._ask(request.topic, count_max, places)
        messages, left = _page(replies, places, count_max)
        return admin.ListDelayedResponse(
            messages=messages,
            cursor=delayed_cursor.encode(left) if any(left.values()) else "",
            scanned=sum(one.scanned for one in replies.values()),
            waiting=sum(one.waiting for one in replies.values()),
            by_level=sum(one.by_level for one in replies.values()),
        )

    async def _ask(
        self, topic: str, count_max: int, places: Mapping[str, Place | None]
    ) -> dict[str, link.ListDelayedReply]:
        """By broker; one that has nothing more, or not the topic, is left out."""
        replies, has_topic = {}, not topic
        for broker, place in places.items():
            if place is None:
                has_topic = True
                continue
            wanted = link.ListDelayed(topic=topic, count_max=count_max)
            if place != FIRST:
                wanted.after.due_ms, wanted.after.offset = place
            call = link.Call(list_delayed=wanted)
            try:
                reply = await self._upstream.call(broker, call, TIMEOUT_MS)
            except NotFound:
                continue
            replies[broker] = reply.list_delayed
        if not replies and not has_topic:
            raise TopicNotFound(topic=topic)
        return replies


def _page(
    replies: Mapping[str, link.ListDelayedReply],
    places: Mapping[str, Place | None],
    count_max: int,
) -> tuple[list[admin.DelayedMessage], dict[str, Place | None]]:
    """The messages of this page, and where each broker's next one begins."""
    horizon_ms = min(
        (one.scanned_to.due_ms for one in replies.values() if one.more), default=1 << 62
    )
    found = sorted(
        (
            (one.place.due_ms, broker, one.place.offset, one)
            for broker, reply in replies.items()
            for one in reply.messages
            if one.place.due_ms <= horizon_ms
        ),
        key=lambda row: row[:3],
    )[:count_max]
    left: dict[str, Place | None] = dict.fromkeys(places)
    for broker, reply in replies.items():
        shown = [(due_ms, offset) for due_ms, name, offset, _ in found if name == broker]
        if len(shown) < len(reply.messages):
            left[broker] = shown[-1] if shown else places[broker]
        elif reply.more:
            left[broker] = reply.scanned_to.due_ms, reply.scanned_to.offset
    return [_message(broker, one) for _, broker, _, one in found], left


def _message(broker: str, one: link.DelayedMessage) -> admin.DelayedMessage:
    handle = RecallHandle(one.topic, broker, one.place.due_ms, one.message_id)
    return admin.DelayedMessage(
        broker=broker,
        topic=one.topic,
        message_id=one.message_id,
        due_ms=one.place.due_ms,
        stored_ms=one.stored_ms,
        born_ms=one.born_ms,
        keys=one.keys.split(),
        tag=one.tag,
        message_group=one.message_group,
        body_bytes=one.body_bytes,
        recall_handle=encode(handle) if one.message_id else "",
    )
