"""SendMessage: check, choose a queue, store, answer per message."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import (
    BrokerUnreachable,
    DiskFull,
    IllegalDeliveryTime,
    MessagesCorrupted,
    NoPermission,
    PopMQError,
    TopicNotFound,
)
from popmq_common.link.sends import OutgoingRecord, SendCall
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import Outcome
from popmq_proxy.core.messages import convert, message_types, outgoing, validate
from popmq_proxy.core.messages.outgoing import Result
from popmq_proxy.core.messages.status import OK, status_of
from popmq_proxy.core.messages.validate import MessageLimits
from popmq_proxy.core.routing import routes
from popmq_proxy.core.routing.round_robin import RoundRobin
from popmq_proxy.core.routing.routes import TopicRoutes
from popmq_proxy.core.sends.request_shape import LOOKED_AT_BYTES, check_shape
from popmq_proxy.core.sends.send_decoder import DecodedSend, SendDecoder
from popmq_proxy.rpc.shared.answer import Encoded
from popmq_proxy.rpc.shared.context import CallContext, Upstream

Place = tuple[str, int]
"""(broker, queue id)"""
SendKind: TypeAlias = link.SendKind.ValueType
More: TypeAlias = Callable[[str, link.SendReply], list[bytes]]
"""(broker, its answer) → further fields of each record's entry."""
SendRequest: TypeAlias = service.SendMessageRequest | DecodedSend
OnResponse: TypeAlias = Callable[[Encoded | None, "SendPlan"], None]
NOT_HERE = (BrokerUnreachable, DiskFull, NoPermission, TopicNotFound)
"""Errors of a broker that say: nothing was stored, and another one may take it."""
NOT_SENT: Result = (0, v2.Status(), b"")
_KINDS: dict[str, SendKind] = {
    "DELAY": link.SEND_KIND_DELAY,
    "TRANSACTION": link.SEND_KIND_HALF,
}


class SendBatch(NamedTuple):
    """Messages of one request and one kind that go to one queue: parallel lists."""

    numbers: list[int]
    """Their places in the request."""
    records: list[OutgoingRecord]


class SendPlan(NamedTuple):
    """A request that has been checked: what goes where, and what is wrong with the rest."""

    topic: str
    message_ids: list[bytes]
    results: list[Result]
    free: dict[SendKind, SendBatch]
    """By kind; any queue will do."""
    bound: dict[Place, SendBatch]
    messages: list[v2.Message]
    """None for a `DecodedSend`, which has no delayed ones."""


class SendHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        config = upstream.config
        self._limits = MessageLimits(
            body_bytes=config.body_bytes_max,
            properties_bytes=config.properties_bytes_max,
            properties_count=config.properties_count_max,
        )
        self._round_robin = RoundRobin()
        self._joined = RoundRobin()
        """Of sends that go where others wait."""
        self._decoder = SendDecoder(self._type_of, self._limits)

    def decode(self, data: bytes) -> SendRequest:
        """Raises `DecodeError`, `MessagesCorrupted`."""
        if len(data) > LOOKED_AT_BYTES:
            check_shape(data, self._upstream.config.send_messages_max)
        return self._decoder.read(data) or service.SendMessageRequest.FromString(data)

    async def send_message(self, ctx: CallContext, request: SendRequest | SendPlan) -> Encoded:
        """One entry per message, in order, each with its own status. A plan is what `begin` has
        made of a request."""
        if isinstance(request, SendPlan):
            plan, topic = request, request.topic
            found = await self._upstream.topic_routes(topic, ctx.user)
        else:
            topic = self._topic(ctx, request)
            found = await self._upstream.topic_routes(topic, ctx.user)
            plan = self._plan(topic, found, request, ctx.peer)
        _, message_ids, results, free, bound, messages = plan
        for to_send, batch in free.items():
            place = self._next_place(topic, found)
            more = None
            if to_send == link.SEND_KIND_DELAY:
                delayed = [messages[i] for i in batch.numbers]
                more = partial(self._recall_handles, topic, delayed)
            others = [other for other in found.writable if other[0] != place[0]]
            stored = await self._store(ctx, topic, place, batch.records, others, to_send, more)
            _enter(results, batch, stored)
        for place, batch in bound.items():
            _enter(results, batch, await self._store(ctx, topic, place, batch.records, []))
        return Encoded(*outgoing.response(message_ids, results))

    def begin(
        self, ctx: CallContext, request: SendRequest, on_reply: OnResponse
    ) -> SendRequest | SendPlan | None:
        """`send_message` without a coroutine, for what nearly all requests are: one batch for a
        broker that is connected. `on_reply` gets the response later, or None when nothing is stored
        and `send_message` is to go on with the plan.

        None: it was begun. Otherwise nothing was sent, and `send_message` goes on with what this
        returns.
        """
        upstream = self._upstream
        declined: SendRequest | SendPlan = request
        try:
            topic = self._topic(ctx, request)
            found = upstream.routes.known(topic)
            if found is None:
                return declined
            plan = declined = self._plan(topic, found, request, ctx.peer)
            if len(plan.free) + len(plan.bound) != 1:
                return declined
            if plan.free:
                ((kind, batch),) = plan.free.items()
                if kind != link.SEND_KIND_NORMAL:
                    return declined
                broker, queue_id = self._next_place(topic, found)
            else:
                (((broker, queue_id), batch),) = plan.bound.items()
            call = SendCall(topic, queue_id, batch.records)
            timeout_ms = upstream.config.call_timeout_ms
            if upstream.brokers.send(
                broker,
                call,
                timeout_ms,
                lambda outcome: on_reply(_response(plan, batch, outcome), plan),
            ):
                return None
        except PopMQError:
            return declined  # it is raised again where it can be told
        return declined

    def _topic(self, ctx: CallContext, request: SendRequest) -> str:
        """Raises `MessagesCorrupted`."""
        messages = request.records if isinstance(request, DecodedSend) else request.messages
        limit = self._upstream.config.send_messages_max
        if len(messages) > limit:
            raise MessagesCorrupted(reason=f"{len(messages)} messages, the limit is {limit}")
        if isinstance(request, DecodedSend):
            return ctx.stored(request.topic)
        return ctx.stored(validate.check_one_topic(request.messages))

    def _plan(self, topic: str, found: TopicRoutes, request: SendRequest, peer: str) -> SendPlan:
        if isinstance(request, DecodedSend):
            return self._plan_of_decoded(topic, found, request)
        messages = list(request.messages)
        results: list[Result] = [NOT_SENT] * len(messages)
        free: dict[SendKind, SendBatch] = {}
        bound: dict[Place, SendBatch] = {}
        for i, message in enumerate(messages):
            try:
                kind = self._check(topic, found, message)
                record = outgoing.record(message, peer)
                group = message.system_properties.message_group
                batch = _batch_for(kind, group, found, free, bound)
            except PopMQError as error:
                results[i] = 0, status_of(error), b""
                continue
            batch.numbers.append(i)
            batch.records.append(record)
        message_ids = [message.system_properties.message_id.encode() for message in messages]
        return SendPlan(topic, message_ids, results, free, bound, messages)

    def _plan_of_decoded(self, topic: str, found: TopicRoutes, request: DecodedSend) -> SendPlan:
        """What all messages share is checked once; what each has, `SendDecoder` has checked."""
        records = request.records
        results: list[Result] = [NOT_SENT] * len(records)
        free: dict[SendKind, SendBatch] = {}
        bound: dict[Place, SendBatch] = {}
        if not request.groups:
            try:
                message_types.check_type(topic, found.topic_type, "NORMAL")
                free[link.SEND_KIND_NORMAL] = SendBatch(list(range(len(records))), records)
            except PopMQError as error:
                results = [(0, status_of(error), b"")] * len(records)
        for i, group in enumerate(request.groups):
            try:
                kind = "FIFO" if group else "NORMAL"
                message_types.check_type(topic, found.topic_type, kind)
                batch = _batch_for(kind, group, found, free, bound)
            except PopMQError as error:
                results[i] = 0, status_of(error), b""
                continue
            batch.numbers.append(i)
            batch.records.append(records[i])
        return SendPlan(topic, request.message_ids, results, free, bound, [])

    def _type_of(self, message: v2.Message) -> str:
        validate.check_message(message, self._limits)
        return message_types.message_type(message.system_properties)

    def _check(self, topic: str, found: TopicRoutes, message: v2.Message) -> str:
        """The message's type. Raises what is wrong with it."""
        kind = self._type_of(message)
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

    def _next_place(self, topic: str, found: TopicRoutes) -> Place:
        """Round robin over the queues of this process's own broker, or of the broker for which
        other sends wait, or of all that answer; the messages of one request stay together."""
        own = self._upstream.own_broker
        if not own and found.is_on_several:
            waiting = self._upstream.gathering.place(asyncio.get_running_loop().time())
            queues = found.writable_at(waiting)
            if queues and self._upstream.brokers.answers(waiting):
                return queues[self._joined.next(topic) % len(queues)]
        queues = (found.writable_at(own) if own else None) or found.writable
        if not queues:
            raise NoPermission(topic=topic, action="writable")
        turn = self._round_robin.next(topic)
        place = queues[turn % len(queues)]
        return place if self._upstream.brokers.answers(place[0]) else self._answering(queues, turn)

    def _answering(self, queues: list[Place], turn: int) -> Place:
        """Of a broker that answers, if there is one."""
        answers = self._upstream.brokers.answers
        better = [place for place in queues if answers(place[0])] or queues
        return better[turn % len(better)]

    async def _store(
        self,
        ctx: CallContext,
        topic: str,
        place: Place,
        records: list[OutgoingRecord],
        others: list[Place],
        kind: SendKind = link.SEND_KIND_NORMAL,
        more: More | None = None,
    ) -> list[Result]:
        """What became of each record. `more` tells what else their entries hold.

        A broker that cannot be reached has got nothing, nor has one that takes nothing: the records
        go to the next of the `others`, places of other brokers. The last one is waited for. One
        whose answer is lost may have them, so they are not sent again.
        """
        broker, queue_id = place
        upstream = self._upstream
        try:
            call = SendCall(topic, queue_id, records, kind)
            if others:
                reply = await upstream.call(broker, call)
            else:
                reply = await upstream.call_there(ctx, broker, call)
        except PopMQError as error:
            if isinstance(error, NoPermission | TopicNotFound):
                upstream.routes.make_stale(topic)
            if not others or not isinstance(error, NOT_HERE):
                return _results(error, len(records))
            place = self._answering(others, self._round_robin.next(topic))
            rest = [other for other in others if other[0] != place[0]]
            return await self._store(ctx, topic, place, records, rest, kind, more)
        if kind == link.SEND_KIND_HALF:
            return outgoing.half_results(broker, reply.send)
        results = _results(reply, len(records))
        if more is not None:
            fields = more(broker, reply.send)
            return [
                (offset, OK, field) for (offset, _, _), field in zip(results, fields, strict=True)
            ]
        return results


def _batch_for(
    kind: str,
    message_group: str,
    found: TopicRoutes,
    free: dict[SendKind, SendBatch],
    bound: dict[Place, SendBatch],
) -> SendBatch:
    """A message group's is for where all its messages are, whether that broker answers or not.
    Raises `NoPermission`."""
    if kind != "FIFO":
        return free.setdefault(_KINDS.get(kind, link.SEND_KIND_NORMAL), SendBatch([], []))
    if not found.writable:
        raise NoPermission(topic=found[0].topic.name, action="writable")
    place = routes.place_of_group(found.group_places, message_group)
    return bound.setdefault(place, SendBatch([], []))


def _response(plan: SendPlan, batch: SendBatch, outcome: Outcome) -> Encoded | None:
    """None: the broker has got nothing, another one may."""
    if isinstance(outcome, NOT_HERE):
        return None
    results = stored = _results(outcome, len(batch.records))
    if len(stored) < len(plan.results):
        results = plan.results
        _enter(results, batch, stored)
    return Encoded(*outgoing.response(plan.message_ids, results))


def _results(outcome: Outcome, number: int) -> list[Result]:
    """Of so many records that went to a broker together."""
    if isinstance(outcome, PopMQError):
        return [(0, status_of(outcome), b"")] * number
    sent = outcome.send  # protobuf makes it anew each time
    first = sent.queue_offset
    if number == 1:
        return [(first, OK, b"")]
    told = sent.queue_offsets
    if told:  # some were stored by an earlier send
        return [(offset, OK, b"") for offset in told]
    return [(offset, OK, b"") for offset in range(first, first + number)]


def _enter(results: list[Result], batch: SendBatch, stored: list[Result]) -> None:
    for i, result in zip(batch.numbers, stored, strict=True):
        results[i] = result
