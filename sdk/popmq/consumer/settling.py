"""What becomes of messages that are held: acks, nacks and changes of their invisible time.

Acks and nacks of many callers share requests; each caller learns of its own message. An ack that
is repeated is answered OK, so one whose answer did not come is asked again. A repeated nack may
find the handle void: then the one before it was done, or the lease was over.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.batch_queue import BatchBounds
from popmq._core.counts import MessageFate
from popmq._core.messages import convert
from popmq._core.messages.held_message import give_handle
from popmq.connection.batch_retry import ask_each
from popmq.connection.batcher import Batcher
from popmq.connection.connection import Connection
from popmq.connection.count_reports import CountReporter
from popmq.connection.pause import pause
from popmq.connection.unknown_calls import is_unknown
from popmq.consumer.lease import Leases
from popmq.errors import PopMQClientError, RefusedByServer, ServerUnreachable, check
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger(__name__)
REASON_CHARS_MAX = 1_000  # the server keeps no more
BOUNDS = BatchBounds(items_max=512, bytes_max=1 << 62, linger_s=0.05, under_way_max=4)
"""Of acks; the server takes 1,024 in a request."""
NACK_KEYS_MAX = 256
"""Kinds of nacks whose requests are kept; idle ones beyond are forgotten."""
PATIENCE_LONGEST_S = 600.0
"""An ack or nack is tried while no server answers, or its broker is away, as long as the lease
lasts: nobody else gets the message until then, and who gives up earlier makes a duplicate."""
PATIENCE_S = 30.0
"""When it is not known how long the lease lasts."""


class _NackKey(NamedTuple):
    """Messages that may share a nack."""

    topic: str
    group: str
    nack: convert.NackTerms


class _Answered(NamedTuple):
    """An answer by runs as one that has an entry of each message."""

    status: v2.Status
    entries: list[Any]
    """Each has a status; none of the messages: the whole request was refused."""


_DONE: Final = consumer.RunRefusal(status=v2.Status(code=v2.OK))


class Settling:
    """Of one client."""

    def __init__(self, connection: Connection, leases: Leases) -> None:
        self._connection = connection
        self._leases = leases
        self.counts: CountReporter | None = None
        """Counts what was settled."""
        self._acks: dict[tuple[str, str], Batcher[ReceivedMessage, None]] = {}
        self._releasing: set[asyncio.Task[None]] = set()
        self._nacks: dict[_NackKey, Batcher[ReceivedMessage, None]] = {}

    async def ack(self, message: ReceivedMessage) -> None:
        """Raises the errors of `popmq.errors`."""
        if not self._leases.end_now(message) or message.unanswered_s is not None:
            await self._end_lease(message)
        await self._acks_with(message).one(message)

    def ack_now(self, message: ReceivedMessage, tell: Callable[[Exception | None], None]) -> bool:
        """Nobody waits for it; `tell` learns what came of it. False: a change of its lease is not
        answered, and `ack` has to wait for that."""
        if not self._leases.end_now(message) or message.unanswered_s is not None:
            return False
        self._acks_with(message).put(message, 0, tell)
        return True

    def _acks_with(self, message: ReceivedMessage) -> Batcher[ReceivedMessage, None]:
        """Where its ack shares requests."""
        topic, group = place = message.topic, message.group
        batches = self._acks.get(place)
        if batches is None:
            batches = self._acks[place] = Batcher(
                lambda held: self._ack_batch(topic, group, held), BOUNDS
            )
        return batches

    async def nack(
        self, message: ReceivedMessage, delay_s: float | None, reason: str, *, counted: bool
    ) -> None:
        kind = consumer.NACK_KIND_COUNTED if counted else consumer.NACK_KIND_UNCOUNTED
        await self._nack(message, kind, delay_s, reason)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        await self._nack(message, consumer.NACK_KIND_FATAL, None, reason)

    def give_back(self, messages: list[ReceivedMessage]) -> None:
        """At once and uncounted, while the caller goes on; nobody is told when it fails."""
        for message in messages:
            task = asyncio.create_task(self.release(message))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def release(self, message: ReceivedMessage) -> None:
        """Give it back at once, uncounted; if that fails it comes when its lease ends."""
        try:
            await self.nack(message, 0.0, "", counted=False)
        except PopMQClientError as failed:
            text = "message %s is redelivered when its lease ends: %s"
            log.info(text, message.message_id, failed, extra=fields(message, failed))

    async def extend(self, message: ReceivedMessage, seconds: float) -> None:
        """Tried once; if no answer came, the next call about the message finds out whether it was
        done. Updates the message's handle."""
        renewed = await self._leases.end(message)
        await self._change(message, seconds)
        if renewed is not None and seconds > 0:
            self._leases.hold([message], seconds, renewed.longest_s, renewed.over)

    async def _change(self, message: ReceivedMessage, seconds: float) -> None:
        connection = self._connection
        group, topic = connection.resource(message.group), connection.resource(message.topic)
        request = convert.change(message, group, topic, seconds)
        try:
            response = await connection.ask(
                connection.stub.ChangeInvisibleDuration, request, attempts=1
            )
            check(response.status)
        except PopMQClientError as failed:
            message.unanswered_s = seconds if failed.retriable else None
            raise
        message.unanswered_s = None
        give_handle(message, response.receipt_handle)
        message.held_until_s = time.monotonic() + seconds

    async def _end_lease(self, message: ReceivedMessage) -> None:
        """It is renewed no more, and its handle is the newest one. A change that was not answered
        is asked for again: the server answers the handle that it made."""
        await self._leases.end(message)
        deadline_s, failures = time.monotonic() + _patience_s([message]), 0
        while message.unanswered_s is not None:
            try:
                await self._change(message, message.unanswered_s)
            except PopMQClientError as failed:
                if not failed.retriable or time.monotonic() >= deadline_s:
                    return  # the ack says what is wrong
                failures += 1
                await pause(failures)

    async def drain(self) -> None:
        """Until everything that was said is answered."""
        await asyncio.gather(*self._releasing)
        await asyncio.gather(
            *(batches.drain() for batches in (*self._acks.values(), *self._nacks.values()))
        )

    async def close(self) -> None:
        for batches in (*self._acks.values(), *self._nacks.values()):
            await batches.cancel()

    async def _nack(
        self,
        message: ReceivedMessage,
        kind: "consumer.NackKind.ValueType",
        delay_s: float | None,
        reason: str,
    ) -> None:
        await self._end_lease(message)
        nack = convert.NackTerms(kind, delay_s, reason[:REASON_CHARS_MAX])
        key = _NackKey(message.topic, message.group, nack)
        batches = self._nacks.get(key)
        if batches is None:
            if len(self._nacks) >= NACK_KEYS_MAX:
                self._nacks = {name: kept for name, kept in self._nacks.items() if not kept.idle}
            batches = self._nacks[key] = Batcher(lambda held: self._nack_batch(key, held), BOUNDS)
        await batches.one(message)

    async def _ack_batch(
        self, topic: str, group: str, held: list[ReceivedMessage]
    ) -> list[Exception | None]:
        connection = self._connection
        group_resource, topic_resource = connection.resource(group), connection.resource(topic)

        def in_runs(runs: convert.Runs) -> consumer.AckRunsRequest:
            return convert.ack_runs(runs, group_resource, topic_resource)

        async def by_handles(left: list[ReceivedMessage]) -> Any:
            request = convert.ack(left, group_resource, topic_resource)
            return await connection.ask(connection.stub.AckMessage, request, attempts=1)

        async def ask(left: list[ReceivedMessage]) -> Any:
            return await self._ask("AckRuns", left, in_runs, by_handles)

        results = await ask_each(held, ask, _done, _patience_s(held), connection.go_elsewhere)
        self._count(MessageFate.ACKED, held, results)
        return results

    async def _ask(
        self,
        rpc: str,
        left: list[ReceivedMessage],
        in_runs: Callable[[convert.Runs], Any],
        by_handles: Callable[[list[ReceivedMessage]], Awaitable[Any]],
    ) -> Any:
        """By runs, if that can be; `by_handles` is asked about those of brokers that know no
        runs."""
        runs = None if rpc in self._connection.unknown else convert.runs_of(left)
        answered = None if runs is None else await self._ask_by_runs(rpc, runs, in_runs(runs))
        if answered is None:
            return await by_handles(left)
        entries = answered.entries
        unknown = [i for i, one in enumerate(entries) if one.status.code == v2.NOT_IMPLEMENTED]
        if unknown:
            self._connection.unknown.add(rpc)
            response = await by_handles([left[i] for i in unknown])
            if len(response.entries) != len(unknown):
                return response  # its status is that of all
            for i, one in zip(unknown, response.entries, strict=True):
                entries[i] = one
        return answered

    async def _ask_by_runs(self, rpc: str, runs: convert.Runs, request: Any) -> _Answered | None:
        """None: the server does not know this call."""
        connection = self._connection
        try:
            response = await connection.ask(getattr(connection.consumer, rpc), request, attempts=1)
        except ServerUnreachable as failed:
            if not is_unknown(failed):
                raise
            connection.unknown.add(rpc)
            return None
        if response.status.code == v2.OK:
            return _Answered(response.status, [_DONE] * len(runs.places))
        refused = {(one.run, one.queue_offset): one for one in response.refusals}
        entries = [refused.get(place, _DONE) for place in runs.places] if refused else []
        return _Answered(response.status, entries)

    def _count(
        self,
        counted_as: MessageFate,
        held: list[ReceivedMessage],
        results: list[Exception | None],
    ) -> None:
        """Each once, however often it is settled."""
        if self.counts is None:
            return
        done = [
            message
            for message, result in zip(held, results, strict=True)
            if result is None and not message.counted
        ]
        for message in done:
            message.counted = True
        self.counts.deliveries(counted_as, done)

    async def _nack_batch(
        self, key: _NackKey, held: list[ReceivedMessage]
    ) -> list[Exception | None]:
        connection = self._connection
        group, topic = connection.resource(key.group), connection.resource(key.topic)

        def in_runs(runs: convert.Runs) -> consumer.NackRunsRequest:
            return convert.nack_runs(runs, group, topic, key.nack)

        async def by_handles(left: list[ReceivedMessage]) -> Any:
            request = convert.nack(left, group, topic, key.nack)
            try:
                return await connection.ask(connection.consumer.Nack, request, attempts=1)
            except ServerUnreachable as failed:
                if not is_unknown(failed):
                    raise
                text = f"{connection.endpoint} is no PopMQ: it does not know nack and reject"
                raise RefusedByServer(v2.NOT_IMPLEMENTED, text) from failed.__cause__

        async def ask(left: list[ReceivedMessage]) -> Any:
            return await self._ask("NackRuns", left, in_runs, by_handles)

        results = await ask_each(held, ask, _done, _patience_s(held), connection.go_elsewhere)
        is_fatal = key.nack.kind == consumer.NACK_KIND_FATAL
        self._count(MessageFate.REJECTED if is_fatal else MessageFate.NACKED, held, results)
        return results


def _patience_s(held: list[ReceivedMessage]) -> float:
    """What is left of the longest lease among them."""
    if not all(message.held_until_s for message in held):
        return PATIENCE_S
    left_s = max(message.held_until_s for message in held) - time.monotonic()
    return min(PATIENCE_LONGEST_S, max(0.0, left_s))


def _done(_: Any) -> None:
    """The result of an entry that was answered OK."""
