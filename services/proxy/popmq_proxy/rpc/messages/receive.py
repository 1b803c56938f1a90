"""ReceiveMessage: pop from the brokers of a topic, answer with what one of them gave.

The order is status, messages, delivery timestamp; official clients rely on all three. When the
client is gone before everything has left, all of it is given back at once: a client drops what it
has of an answer that did not end.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import (
    BadRequest,
    IllegalFilter,
    NoPermission,
    PopMQError,
)
from popmq_common.records.names import check_group
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import convert, validate
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.delivery import DeliveryEncoder
from popmq_proxy.core.messages.popped import PoppedHandles, gave, handles_of, held_run
from popmq_proxy.core.messages.status import ok
from popmq_proxy.core.routing.round_robin import RoundRobin
from popmq_proxy.rpc.messages.pop_anywhere import PopAnywhere, PoppedAt
from popmq_proxy.rpc.shared.answer import Answer
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.polls import while_it_lives

BATCH_MAX = 32
"""A broker gives no more in one pop."""
WHOLE_MAX = 256
"""In one answer to our SDK."""
WHOLE_FIRST_BYTES_MAX = 1 << 20
"""Records of a first pop that are larger together are all of an answer, which would be huge."""
ENDED_MAX = 64
"""Polls ended by one call."""
GOES_ON_AFTER_FAILURE = {"GO"}
"""Clients whose push consumer goes on with the batch while a failed message of a FIFO group waits
for its retry in the client: two of one message group in a batch would change places. Seen with
5.1.4 of the Go client."""
FOUND = service.ReceiveMessageResponse(status=ok()).SerializeToString()
NOTHING = service.ReceiveMessageResponse(
    status=v2.Status(code=v2.MESSAGE_NOT_FOUND, message="no new message")
).SerializeToString()


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one receive took, and from where."""

    broker: str
    group: str
    topic: str
    replies: Sequence[link.PopReply]
    fifo: bool = False


class ReceiveHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._round_robin = RoundRobin()
        self._anywhere = PopAnywhere(upstream, self._give_back_taken)

    async def receive_message(
        self, ctx: CallContext, request: service.ReceiveMessageRequest
    ) -> Answer:
        """Status, messages, delivery timestamp."""
        pop = self._pop_call(ctx, request)
        delivery = await self._pop(ctx, request.message_queue.broker.name, pop)
        encoder = DeliveryEncoder(request.message_queue.topic, pop.invisible_ms)

        def responses(given: link.PopReply) -> list[bytes]:
            return [
                encoder.response(one.handle, one.record, one.delivery_attempt)
                for one in given.messages
            ]

        return await self._answer(delivery, responses)

    async def receive_records(
        self, ctx: CallContext, request: service.ReceiveMessageRequest
    ) -> Answer:
        """The same as one response, for our SDK, and of up to `WHOLE_MAX` messages as they are
        stored, by runs."""
        pop = self._pop_call(ctx, request)
        delivery = await self._whole(ctx, request, pop)
        answer = await self._answer(delivery, lambda given: list(map(held_run, given.runs)))
        return replace(answer, responses=[b"".join(answer.responses)])

    async def _whole(
        self, ctx: CallContext, request: service.ReceiveMessageRequest, pop: link.Pop
    ) -> Delivery:
        """A pop by runs; further ones when it was full, of small messages, without an order that
        a receive whose answer was lost would have to give again."""
        pop.by_runs = True
        first = await self._pop(ctx, request.message_queue.broker.name, pop)
        runs = [run for reply in first.replies for run in reply.runs]
        taken_bytes = sum(run.ByteSize() for run in runs)
        full = sum(len(run.records) for run in runs) == BATCH_MAX < request.batch_size
        if first.fifo or not full or taken_bytes > WHOLE_FIRST_BYTES_MAX:
            return first
        return await self._more(ctx, first, pop, request.batch_size)

    async def _more(
        self, ctx: CallContext, first: Delivery, pop: link.Pop, wanted: int
    ) -> Delivery:
        """What else is there, of the same broker, in pops beside each other that do not wait. One
        that fails brings nothing: the next receive will tell."""
        pops = []
        for missing in range(min(wanted, WHOLE_MAX) - BATCH_MAX, 0, -BATCH_MAX):
            more = link.Pop()
            more.CopyFrom(pop)
            more.batch_size, more.poll_ms, more.attempt_id = min(missing, BATCH_MAX), 0, ""
            more.poll_id = 0
            more.bytes_max = pop.bytes_max * BATCH_MAX // WHOLE_MAX
            pops.append(more)
        asked = [
            asyncio.ensure_future(self._anywhere.pop_at(ctx, first.broker, one, last=False))
            for one in pops
        ]
        try:
            await asyncio.wait(asked)
        except asyncio.CancelledError:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            await self._give_back(_joined(first, asked))
            raise
        return _joined(first, asked)

    async def _answer(
        self, delivery: Delivery, responses_of: Callable[[link.PopReply], list[bytes]]
    ) -> Answer:
        """`responses_of`: what a client gets of a broker's reply."""
        if not any(gave(reply) for reply in delivery.replies):
            return Answer(v2.MESSAGE_NOT_FOUND, [NOTHING, self._timestamp()])
        try:
            given = [part for reply in delivery.replies for part in responses_of(reply)]
        except BaseException:
            await self._give_back(delivery)
            raise
        responses = [FOUND, *given, self._timestamp()]
        # Without the delivery: its messages are not held for a client that does not read.
        handles = handles_of(delivery.replies)
        undo = partial(self._release, delivery.broker, delivery.group, delivery.topic, handles)
        return Answer(v2.OK, responses, undo)

    async def end_polls(
        self, ctx: CallContext, request: consumer.EndPollsRequest
    ) -> consumer.EndPollsResponse:
        """Raises `BadRequest`."""
        if len(request.attempt_ids) > ENDED_MAX:
            count = len(request.attempt_ids)
            raise BadRequest(reason=f"{count} attempt ids, up to {ENDED_MAX} allowed")
        self._upstream.sessions.end_polls(ctx.client_id, set(request.attempt_ids))
        return consumer.EndPollsResponse(status=ok())

    def _timestamp(self) -> bytes:
        now = convert.timestamp(self._upstream.clock.now_ms())
        return service.ReceiveMessageResponse(delivery_timestamp=now).SerializeToString()

    async def _pop(self, ctx: CallContext, asked_broker: str, pop: link.Pop) -> Delivery:
        upstream = self._upstream
        found = await upstream.topic_routes(pop.topic, ctx.user)
        group = await upstream.group(pop.group, ctx.user)  # made on first use
        await upstream.starts.fix(pop.group, pop.topic, found.readable_brokers)
        brokers = self._brokers(asked_broker, pop, found.readable_brokers)
        session = upstream.sessions.seen(ctx.client_id, upstream.clock.now_ms())
        session.renews = session.renews or pop.auto_renew

        async def unseen(taken: PoppedAt) -> None:
            await self._give_back(delivery(taken))

        def delivery(taken: PoppedAt) -> Delivery:
            return Delivery(taken.broker, pop.group, pop.topic, [taken.reply], group.fifo)

        poll = self._anywhere.pop(ctx, brokers, pop, fifo=group.fifo)
        taken = await while_it_lives(session, poll, pop.attempt_id, unseen)
        return delivery(taken or PoppedAt(brokers[0], link.PopReply()))

    def _pop_call(self, ctx: CallContext, request: service.ReceiveMessageRequest) -> link.Pop:
        topic, group = ctx.stored(request.message_queue.topic), ctx.stored(request.group)
        check_group(group)
        config = self._upstream.config
        if request.batch_size < 1:
            raise BadRequest(reason=f"batch size {request.batch_size}, at least 1 is needed")
        kind, expression = filter_of(request.filter_expression)
        asked_ms = None
        if request.HasField("long_polling_timeout"):
            asked_ms = max(0, duration_ms(request.long_polling_timeout))
        settings_ms = self._upstream.sessions.poll_ms(ctx.client_id)
        return link.Pop(
            group=group,
            topic=topic,
            batch_size=min(request.batch_size, BATCH_MAX),
            invisible_ms=self._invisible_ms(request),
            poll_ms=validate.poll_ms(asked_ms, settings_ms, ctx.remaining_ms(), config.poll_ms_max),
            filter_kind=kind,
            filter_expression=expression,
            attempt_id=request.attempt_id,
            client_id=ctx.client_id,
            one_per_message_group=request.auto_renew and ctx.language in GOES_ON_AFTER_FAILURE,
            auto_renew=request.auto_renew,
            needs_start=True,
            bytes_max=ctx.answer_bytes_max,
        )

    def _invisible_ms(self, request: service.ReceiveMessageRequest) -> int:
        config = self._upstream.config
        if request.auto_renew or not request.HasField("invisible_duration"):
            return config.invisible_ms_default
        invisible_ms = duration_ms(request.invisible_duration)
        validate.check_receive_invisible(
            invisible_ms, config.invisible_ms_min, config.invisible_ms_max
        )
        return invisible_ms

    def _brokers(self, asked: str, pop: link.Pop, readable: list[str]) -> list[str]:
        """Where to ask, in this order: the broker the client names, or one in turn when it names
        none that has the topic; those that do not answer just now come last."""
        if not readable:
            raise NoPermission(topic=pop.topic, action="readable")
        if asked in readable:
            first = readable.index(asked)
        else:
            first = self._round_robin.next((pop.group, pop.topic)) % len(readable)
        in_turn = readable[first:] + readable[:first]
        return sorted(in_turn, key=lambda broker: not self._upstream.brokers.answers(broker))

    async def _give_back_taken(self, pop: link.Pop, taken: PoppedAt) -> None:
        await self._give_back(Delivery(taken.broker, pop.group, pop.topic, [taken.reply]))

    async def _give_back(self, delivery: Delivery) -> None:
        """The client went before it had them."""
        handles = handles_of(delivery.replies)
        await self._release(delivery.broker, delivery.group, delivery.topic, handles)

    async def _release(self, broker: str, group: str, topic: str, handles: PoppedHandles) -> None:
        """Visible again at once, uncounted."""
        release = link.Release(group=group, topic=topic, handles=handles.each())
        try:
            await asyncio.shield(self._upstream.call(broker, link.Call(release=release)))
        except PopMQError as failed:  # they come back when their time is over
            self._upstream.log.warning(
                "release.failed", broker=broker, count=len(release.handles), reason=str(failed)
            )


def _joined(first: Delivery, more: Sequence["asyncio.Future[link.PopReply]"]) -> Delivery:
    """With what came of the other pops."""
    came = [one.result() for one in more if not one.cancelled() and one.exception() is None]
    return replace(first, replies=[*first.replies, *came])


def filter_of(expression: v2.FilterExpression) -> tuple["link.FilterKind.ValueType", str]:
    text = expression.expression
    if len(text) > 65_536:
        raise IllegalFilter(expression=text[:40] + "…", reason="longer than 65,536 characters")
    if text.strip() in ("", "*"):
        return link.FILTER_KIND_ALL, ""
    if expression.type == v2.SQL:
        return link.FILTER_KIND_SQL, text
    return link.FILTER_KIND_TAG, text
