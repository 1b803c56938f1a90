"""SendMessage: check, choose a queue, store, answer per message."""

from itertools import count

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import (
    IllegalDeliveryTime,
    MessagesCorrupted,
    NoPermission,
    NotServed,
    PopMQError,
)
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core import convert, routes, validate
from popmq_proxy.core.routes import Routes
from popmq_proxy.core.status import common, ok, status_of
from popmq_proxy.core.validate import Limits
from popmq_proxy.rpc.context import CallContext, Upstream

Place = tuple[str, int]


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
        entries: list[service.SendResultEntry | None] = [None] * len(messages)
        by_broker: dict[str, list[tuple[int, link.OutgoingRecord]]] = {}
        fallback = self._next_place(topic, found)
        for i, message in enumerate(messages):
            try:
                broker, record = self._prepare(ctx, topic, found, message, fallback)
                by_broker.setdefault(broker, []).append((i, record))
            except PopMQError as error:
                entries[i] = service.SendResultEntry(
                    status=status_of(error), message_id=message.system_properties.message_id
                )
        for broker, numbered in by_broker.items():
            await self._store(broker, topic, messages, numbered, entries)
        done = [entry for entry in entries if entry is not None]
        assert len(done) == len(messages)
        return service.SendMessageResponse(
            status=common([entry.status for entry in done]), entries=done
        )

    def _prepare(
        self,
        ctx: CallContext,
        topic: str,
        found: Routes,
        message: v2.Message,
        fallback: Place,
    ) -> tuple[str, link.OutgoingRecord]:
        now_ms = self._upstream.clock.now_ms()
        validate.check_message(message, self._limits)
        kind = validate.message_type(message)
        validate.check_type(topic, routes.topic_type(found), kind)
        system = message.system_properties
        if kind == "TRANSACTION":
            raise NotServed(what="A transaction message")
        if kind == "DELAY":
            if not convert.is_valid(system.delivery_timestamp):
                raise IllegalDeliveryTime(reason="it is no point in time")
            if convert.millis(system.delivery_timestamp) > now_ms:
                raise NotServed(what="A message to be delivered later")
        broker, queue_id = fallback
        if kind == "FIFO":
            queues = routes.writable(found)
            broker, queue_id = routes.place_of_group(queues, system.message_group)
        return broker, convert.outgoing(message, peer=ctx.peer, queue_id=queue_id)

    def _next_place(self, topic: str, found: Routes) -> Place:
        """Round robin over all queues; the messages of one request stay together."""
        queues = routes.writable(found)
        if not queues:
            raise NoPermission(topic=topic, action="writable")
        return queues[next(self._turn) % len(queues)]

    async def _store(
        self,
        broker: str,
        topic: str,
        messages: list[v2.Message],
        numbered: list[tuple[int, link.OutgoingRecord]],
        entries: list[service.SendResultEntry | None],
    ) -> None:
        call = link.Call(send=link.Send(topic=topic, records=[record for _, record in numbered]))
        try:
            results = list((await self._upstream.call(broker, call)).send.results)
            statuses = [ok()] * len(results)
        except PopMQError as error:
            results = [link.SendResult()] * len(numbered)
            statuses = [status_of(error)] * len(numbered)
        for (i, _), result, status in zip(numbered, results, statuses, strict=True):
            entries[i] = service.SendResultEntry(
                status=status,
                message_id=messages[i].system_properties.message_id,
                offset=result.queue_offset,
            )
