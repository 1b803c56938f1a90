"""SendMessage: check, choose a queue, store, answer per message."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple, TypeAlias

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import (
    BrokerUnreachable,
    IllegalDeliveryTime,
    MessagesCorrupted,
    NoPermission,
    PopMQError,
)
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core import convert, message_types, outgoing, routes, validate
from popmq_proxy.core.outgoing import Result
from popmq_proxy.core.routes import TopicRoutes
from popmq_proxy.core.status import OK, status_of
from popmq_proxy.core.validate import Limits
from popmq_proxy.rpc.context import CallContext, Upstream

Place = tuple[str, int]
"""(broker, queue id)"""
Kind: TypeAlias = link.SendKind.ValueType
More: TypeAlias = Callable[[str, link.SendReply], list[bytes]]
"""(broker, its answer) → further fields of each record's entry."""
NOT_SENT: Result = (0, v2.Status(), b"")
_KINDS: dict[str, Kind] = {
    "DELAY": link.SEND_KIND_DELAY,
    "TRANSACTION": link.SEND_KIND_HALF,
}


class Batch(NamedTuple):
    """Messages of one request and one kind that go to one queue: parallel lists."""

    numbers: list[int]
    """Their places in the request."""
    records: list[bytes]


class Send:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        config = upstream.config
        self._limits = Limits(
            body_bytes=config.body_bytes_max,
            properties_bytes=config.properties_bytes_max,
            properties_count=config.properties_count_max,
        )
        self._turn = count()

    async def send_message(
        self, ctx: CallContext, request: service.SendMessageRequest
    ) -> service.SendMessageResponse:
        """One entry per message, in order, each with its own status."""
        messages = list(request.messages)
        if len(messages) > self._upstream.config.send_messages_max:
            limit = self._upstream.config.send_messages_max
            raise MessagesCorrupted(reason=f"{len(messages)} messages, the limit is {limit}")
        topic = ctx.stored(validate.check_one_topic(messages))
        found = await self._upstream.topic_routes(topic)
        results: list[Result] = [NOT_SENT] * len(messages)
        free: dict[Kind, Batch] = {}
        bound: dict[Place, Batch] = {}
        for i, message in enumerate(messages):
            try:
                kind = self._check(topic, found, message)
                record = outgoing.record(message, ctx.peer)
                if kind == "FIFO":
                    place = self._bound_place(found, message)
                    batch = bound.setdefault(place, Batch([], []))
                else:
                    batch = free.setdefault(_KINDS.get(kind, link.SEND_KIND_NORMAL), Batch([], []))
            except PopMQError as error:
                results[i] = 0, status_of(error), b""
                continue
            batch.numbers.append(i)
            batch.records.append(record)
        for to_send, batch in free.items():
            place = self._next_place(topic, found)
            more = None
            if to_send == link.SEND_KIND_DELAY:
                more = partial(self._recall_handles, topic, [messages[i] for i in batch.numbers])
            stored = await self._store(topic, place, batch.records, found.writable, to_send, more)
            _enter(results, batch, stored)
        for place, batch in bound.items():
            _enter(results, batch, await self._store(topic, place, batch.records, []))
        return outgoing.response(messages, results)

    def _check(self, topic: str, found: TopicRoutes, message: v2.Message) -> str:
        """The message's type. Raises what is wrong with it."""
        validate.check_message(message, self._limits)
        kind = message_types.message_type(message.system_properties)
        message_types.check_type(topic, found.topic_type, kind)
        if kind == "TRANSACTION":
            validate.check_recovery_time(message, self._upstream.config.transaction_recovery_ms_max)
        if kind == "DELAY":
            due = message.system_properties.delivery_timestamp
            if not convert.is_valid(due):
                raise IllegalDeliveryTime(reason="it is no point in time")
            limit_ms, ahead_ms = self._upstream.config.delay_ms_max, self._ahead_ms(message)
            if ahead_ms > limit_ms:
                reason = f"{ahead_ms} ms ahead, the limit is {limit_ms} ms"
                raise IllegalDeliveryTime(reason=reason)
        return kind

    def _recall_handles(
        self, topic: str, messages: list[v2.Message], broker: str, _: link.SendReply
    ) -> list[bytes]:
        """Of what that broker has stored: the field of each entry, empty when its time has come."""
        return [
            outgoing.recall_handle(topic, broker, message) if self._ahead_ms(message) > 0 else b""
            for message in messages
        ]

    def _ahead_ms(self, message: v2.Message) -> int:
        """How long a message of type DELAY is to wait."""
        due_ms = convert.due_ms(message.system_properties.delivery_timestamp)
        return due_ms - self._upstream.clock.now_ms()

    def _bound_place(self, found: TopicRoutes, message: v2.Message) -> Place:
        """Where all messages of its group are, whether that broker answers or not."""
        return routes.place_of_group(found.writable, message.system_properties.message_group)

    def _next_place(self, topic: str, found: TopicRoutes) -> Place:
        """Round robin over all queues; the messages of one request stay together."""
        queues = found.writable
        if not queues:
            raise NoPermission(topic=topic, action="writable")
        return queues[next(self._turn) % len(queues)]

    async def _store(
        self,
        topic: str,
        place: Place,
        records: list[bytes],
        others: list[Place],
        kind: Kind = link.SEND_KIND_NORMAL,
        more: More | None = None,
    ) -> list[Result]:
        """What became of each record. `more` tells what else their entries hold.

        A broker that cannot be reached has got nothing: the records go to the next of the
        `others`. One whose answer is lost may have them, so they are not sent again.
        """
        broker, queue_id = place
        try:
            call = outgoing.call(topic, queue_id, records, kind)
            reply = await self._upstream.call(broker, call)
        except BrokerUnreachable as error:
            rest = [place for place in others if place[0] != broker]
            if not rest:
                return [(0, status_of(error), b"")] * len(records)
            place = rest[next(self._turn) % len(rest)]
            return await self._store(topic, place, records, rest, kind, more)
        except PopMQError as error:
            return [(0, status_of(error), b"")] * len(records)
        if kind == link.SEND_KIND_HALF:
            return outgoing.half_results(broker, reply.send)
        first = reply.send.queue_offset
        fields = more(broker, reply.send) if more else [b""] * len(records)
        return [(first + i, OK, field) for i, field in enumerate(fields)]


def _enter(results: list[Result], batch: Batch, stored: list[Result]) -> None:
    for i, result in zip(batch.numbers, stored, strict=True):
        results[i] = result
