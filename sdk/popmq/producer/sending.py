"""Sends: messages → one request, its answer → a receipt or an error for each."""

import asyncio
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.counts import Counts, MessageFate
from popmq._core.messages import compress, convert, invalid_message
from popmq._core.messages.encode import MessageEncoder
from popmq._core.messages.ids import MessageIds
from popmq.connection.batch_retry import ask_each
from popmq.connection.connection import ATTEMPTS, Connection
from popmq.connection.count_reports import CountReporter
from popmq.connection.pause import pause
from popmq.connection.telemetry import Telemetry
from popmq.errors import (
    BrokerUnavailable,
    PopMQClientError,
    RefusedByServer,
    check,
    error_of,
)
from popmq.message import Message
from popmq.send_receipt import SendReceipt

_IDS: Final[dict[int, MessageIds]] = {}
"""By process id: a forked process has those of its parent too."""


def _ids_of_process() -> MessageIds:
    """All clients of a process count on together: an id holds process and second, so two that begin
    in one second would give one id to two messages."""
    pid = os.getpid()
    return _IDS.setdefault(pid, MessageIds(uuid.getnode(), pid, int(time.time())))


class Sending:
    """Of one client."""

    def __init__(self, connection: Connection, telemetry: Telemetry) -> None:
        self._connection = connection
        self._telemetry = telemetry
        self.counts: CountReporter | None = None
        """Counts what becomes of each message; None: nobody wants to know."""
        self.ids = _ids_of_process()
        self._topics: dict[str, MessageEncoder] = {}
        """Those that the server was told of."""
        self._telling: dict[str, asyncio.Task[None]] = {}

    def known(self, topic: str) -> MessageEncoder | None:
        """None: the server is to be told first, by `topic`."""
        return self._topics.get(topic)

    async def topic(self, name: str) -> MessageEncoder:
        """The server is told of a topic before the first message. Who asks first goes on first."""
        known = self._topics.get(name)
        if known is None:
            telling = self._telling.get(name)
            if telling is None:
                telling = self._telling[name] = asyncio.create_task(self._tell(name))
            await asyncio.shield(telling)
            known = self._topics[name]
        return known

    async def _tell(self, name: str) -> None:
        if self.counts is not None:
            self.counts.begin()
        resource = self._connection.resource(name)
        await self._telemetry.publish(resource)
        self._topics[name] = MessageEncoder(resource)
        del self._telling[name]

    def draft(self, topic: MessageEncoder, message: Message, compress_level: int = 0) -> bytes:
        """With an id of its own. `compress_level` 0: the body goes as it is."""
        return self.draft_of(
            topic,
            message.body,
            tag=message.tag,
            keys=message.keys,
            properties=message.properties,
            message_group=message.message_group,
            delay_s=message.delay_s,
            deliver_at=message.deliver_at,
            compress_level=compress_level,
        )

    def draft_of(
        self,
        topic: MessageEncoder,
        body: bytes,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        compress_level: int = 0,
    ) -> bytes:
        """The same of a message that is not made. Raises `TypeError` for what it cannot have,
        `ValueError` if it names two times."""
        now_ms = time.time_ns() // 1_000_000
        due_ms = None
        try:
            if delay_s is not None or deliver_at is not None:
                due_ms = convert.due_ms(delay_s, deliver_at, now_ms)
            message_id = self.ids.next()
            if self.counts is not None:
                self.counts.counts.drafted(message_id, now_ms)
            return topic.entry(
                compress.pack(body, compress_level) if compress_level else body,
                message_id,
                now_ms,
                tag=tag,
                keys=keys,
                properties=properties,
                message_group=message_group,
                due_ms=due_ms,
                packed=compress_level > 0,
            )
        except (AttributeError, TypeError) as failed:
            message = Message(
                body=body,
                tag=tag,
                keys=keys,
                properties={} if properties is None else properties,
                message_group=message_group,
                delay_s=delay_s,
                deliver_at=deliver_at,
            )
            if wrong := invalid_message.why_invalid(message):
                raise TypeError(wrong) from failed
            raise

    async def send(
        self, topic: str, messages: Sequence[Message], attempts: int = ATTEMPTS
    ) -> list[SendReceipt | PopMQClientError]:
        """One request for all; per message its receipt or what went wrong with it. Raises what went
        wrong with the request."""
        encoder = await self.topic(topic)
        drafts = [self.draft(encoder, message) for message in messages]
        with self._counted(topic, drafts) as answered:
            answered += await self._tried(drafts, attempts)
        return answered

    async def _tried(
        self, drafts: list[bytes], attempts: int
    ) -> list[SendReceipt | PopMQClientError]:
        results = await self._receipts(drafts, attempts)
        for failures in range(1, attempts):
            again = [i for i, one in enumerate(results) if isinstance(one, BrokerUnavailable)]
            if not again:
                break
            await pause(failures)
            self._connection.go_elsewhere()
            found = await self._receipts([drafts[i] for i in again], attempts)
            for i, result in zip(again, found, strict=True):
                results[i] = result
        return results

    async def _receipts(
        self, drafts: list[bytes], attempts: int
    ) -> list[SendReceipt | PopMQClientError]:
        response = await self._ask(drafts, attempts)
        if len(response.entries) == len(drafts):
            return [
                _stored(entry) if entry.status.code == v2.OK else error_of(entry.status)
                for entry in response.entries
            ]
        try:
            check(response.status)
        except BrokerUnavailable as failed:  # of all of them
            return [failed] * len(drafts)
        raise PopMQClientError(f"{len(response.entries)} entries were answered of {len(drafts)}")

    async def send_drafts(
        self, topic: str, drafts: list[bytes], patience_s: float
    ) -> list[SendReceipt | Exception]:
        """The same, and what may yet be stored is tried for `patience_s`."""
        elsewhere = self._connection.go_elsewhere
        with self._counted(topic, drafts) as answered:
            answered += await ask_each(
                drafts, lambda left: self._ask(left, 1), _stored, patience_s, elsewhere
            )
        return answered

    @contextmanager
    def _counted(self, topic: str, drafts: list[bytes]) -> Iterator[list[Any]]:
        """The block fills in what was answered; if it ends without that, nobody knows what became
        of the drafts."""
        answered: list[SendReceipt | Exception] = []
        try:
            yield answered
        finally:
            if self.counts is not None:
                count_sends(self.counts.counts, topic, drafts, answered)

    async def _ask(self, drafts: list[bytes], attempts: int) -> Any:
        return await self._connection.ask(
            self._connection.stub.SendMessage, b"".join(drafts), attempts=attempts
        )


def count_sends(
    counts: Counts, topic: str, drafts: list[bytes], results: Sequence[SendReceipt | Exception]
) -> None:
    """`results` empty: none came."""
    stored = [one.message_id for one in results if type(one) is SendReceipt]
    counts.sends(MessageFate.SENT, topic, stored)
    if len(stored) == len(drafts):
        return
    for draft, result in zip_longest(drafts, results):
        if not isinstance(result, SendReceipt):
            (message,) = service.SendMessageRequest.FromString(draft).messages
            counts.sends(failed_as(result), topic, [message.system_properties.message_id])


def failed_as(failed: BaseException | None) -> MessageFate:
    """Whether it is certain that the last try stored nothing."""
    certain = isinstance(failed, RefusedByServer) and not failed.retriable
    return MessageFate.REFUSED if certain else MessageFate.UNKNOWN


def _stored(entry: service.SendResultEntry) -> SendReceipt:
    return SendReceipt(
        message_id=entry.message_id, queue_offset=entry.offset, recall_handle=entry.recall_handle
    )
