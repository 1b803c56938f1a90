"""SendMessage: check, choose a queue, store, answer per message."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple, TypeAlias

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import (
    BrokerUnreachable,
    IllegalDeliveryTime,
    MessagesCorrupted,
    NoPermission,
    NotServed,
    PopMQError,
)
from popmq_common.sends import OutgoingRecord
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import Outcome
from popmq_proxy.core import convert, outgoing, routes, validate
from popmq_proxy.core.outgoing import Result
from popmq_proxy.core.plain import PlainReader, PlainSend
from popmq_proxy.core.routes import TopicRoutes
from popmq_proxy.core.status import OK, status_of
from popmq_proxy.core.validate import Limits
from popmq_proxy.rpc.answer import Encoded
from popmq_proxy.rpc.context import CallContext, Upstream

Place = tuple[str, int]
"""(broker, queue id)"""
Kind: TypeAlias = link.SendKind.ValueType
Request: TypeAlias = service.SendMessageRequest | PlainSend
Responded = Callable[["Encoded | None"], None]
NOT_SENT: Result = (0, v2.Status(), b"")
_KINDS: dict[str, Kind] = {
    "DELAY": link.SEND_KIND_DELAY,
    "TRANSACTION": link.SEND_KIND_HALF,
}


class Batch(NamedTuple):
    """Messages of one request and one kind that go to one queue: parallel lists."""

    numbers: list[int]
    """Their places in the request."""
    records: list[OutgoingRecord]


class Plan(NamedTuple):
    """A request that has been checked: what goes where, and what is wrong with the rest."""

    topic: str
    found: TopicRoutes
    message_ids: list[bytes]
    results: list[Result]
    free: dict[Kind, Batch]
    """By kind; any queue will do."""
    bound: dict[Place, Batch]


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
        self._plain = PlainReader(self._type_of, config.body_bytes_max)

    def decode(self, data: bytes) -> Request:
        """Raises `DecodeError`."""
        return self._plain.read(data) or service.SendMessageRequest.FromString(data)

    async def send_message(self, ctx: CallContext, request: Request) -> service.SendMessageResponse:
        """One entry per message, in order, each with its own status."""
        topic = self._topic(ctx, request)
        plan = self._plan(topic, await self._upstream.topic_routes(topic), request, ctx.peer)
        _, found, message_ids, results, free, bound = plan
        for to_send, batch in free.items():
            place = self._next_place(topic, found)
            stored = await self._store(topic, place, batch.records, found.writable, to_send)
            _enter(results, batch, stored)
        for place, batch in bound.items():
            _enter(results, batch, await self._store(topic, place, batch.records, []))
        return service.SendMessageResponse.FromString(outgoing.response(message_ids, results)[1])

    def begin(self, ctx: CallContext, request: Request, told: Responded) -> bool:
        """`send_message` without a coroutine, for what nearly all requests are: one batch for a
        broker that is connected. `told` gets the response later, or None when nothing is stored
        and `send_message` is to try it.

        False: this is no such request, and nothing was done.
        """
        upstream = self._upstream
        try:
            topic = self._topic(ctx, request)
            found = upstream.routes.known(topic)
            if found is None:
                return False
            plan = self._plan(topic, found, request, ctx.peer)
            if len(plan.free) + len(plan.bound) != 1:
                return False
            if plan.free:
                ((kind, batch),) = plan.free.items()
                broker, queue_id = self._next_place(topic, found)
                if kind != link.SEND_KIND_NORMAL:
                    return False
            else:
                (((broker, queue_id), batch),) = plan.bound.items()
            call = outgoing.call(topic, queue_id, batch.records)
            timeout_ms = upstream.config.call_timeout_ms
            return upstream.brokers.send(
                broker, call, timeout_ms, lambda outcome: told(_response(plan, batch, outcome))
            )
        except PopMQError:
            return False  # it is raised again where it can be told

    def _topic(self, ctx: CallContext, request: Request) -> str:
        """Raises `MessagesCorrupted`."""
        messages = request.records if isinstance(request, PlainSend) else request.messages
        limit = self._upstream.config.send_messages_max
        if len(messages) > limit:
            raise MessagesCorrupted(reason=f"{len(messages)} messages, the limit is {limit}")
        if isinstance(request, PlainSend):
            return ctx.stored(request.topic)
        return ctx.stored(validate.check_one_topic(request.messages))

    def _plan(self, topic: str, found: TopicRoutes, request: Request, peer: str) -> Plan:
        if isinstance(request, PlainSend):
            return self._plain_plan(topic, found, request)
        messages = list(request.messages)
        results: list[Result] = [NOT_SENT] * len(messages)
        free: dict[Kind, Batch] = {}
        bound: dict[Place, Batch] = {}
        for i, message in enumerate(messages):
            try:
                kind = self._check(topic, found, message)
                record = outgoing.record(message, peer)
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
        message_ids = [message.system_properties.message_id.encode() for message in messages]
        return Plan(topic, found, message_ids, results, free, bound)

    def _plain_plan(self, topic: str, found: TopicRoutes, request: PlainSend) -> Plan:
        """What all messages share is checked once; what each has, `PlainReader` has checked."""
        number = len(request.records)
        results: list[Result] = [NOT_SENT] * number
        free: dict[Kind, Batch] = {}
        try:
            validate.check_type(topic, found.topic_type, "NORMAL")
            free[link.SEND_KIND_NORMAL] = Batch(list(range(number)), request.records)
        except PopMQError as error:
            results = [(0, status_of(error), b"")] * number
        return Plan(topic, found, request.message_ids, results, free, {})

    def _type_of(self, message: v2.Message) -> str:
        validate.check_message(message, self._limits)
        return validate.message_type(message)

    def _check(self, topic: str, found: TopicRoutes, message: v2.Message) -> str:
        """The message's type. Raises what is wrong with it."""
        kind = self._type_of(message)
        validate.check_type(topic, found.topic_type, kind)
        if kind == "TRANSACTION":
            raise NotServed(what="A transaction message")
        if kind == "DELAY":
            due = message.system_properties.delivery_timestamp
            if not convert.is_valid(due):
                raise IllegalDeliveryTime(reason="it is no point in time")
            if convert.millis(due) > self._upstream.clock.now_ms():
                raise NotServed(what="A message to be delivered later")
        return kind

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
        records: list[OutgoingRecord],
        others: list[Place],
        kind: Kind = link.SEND_KIND_NORMAL,
    ) -> list[Result]:
        """What became of each record.

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
            return await self._store(topic, place, records, rest, kind)
        except PopMQError as error:
            return [(0, status_of(error), b"")] * len(records)
        first = reply.send.queue_offset
        return [(offset, OK, b"") for offset in range(first, first + len(records))]


def _response(plan: Plan, batch: Batch, outcome: Outcome) -> Encoded | None:
    """None: the broker has got nothing, another one may."""
    if isinstance(outcome, BrokerUnreachable):
        return None
    number = len(batch.records)
    if isinstance(outcome, PopMQError):
        stored: list[Result] = [(0, status_of(outcome), b"")] * number
    else:
        first = outcome.send.queue_offset
        stored = [(offset, OK, b"") for offset in range(first, first + number)]
    results = stored
    if number < len(plan.results):
        results = plan.results
        _enter(results, batch, stored)
    return Encoded(*outgoing.response(plan.message_ids, results))


def _enter(results: list[Result], batch: Batch, stored: list[Result]) -> None:
    for i, result in zip(batch.numbers, stored, strict=True):
        results[i] = result
