"""Sends: messages → one request, its answer → a receipt or an error for each."""

import asyncio
import os
import random
import time
import uuid
from collections.abc import Sequence
from typing import Any

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core import compress, convert
from popmq._core.ids import MessageIds
from popmq.connection import ATTEMPTS, BACKOFF, Connection
from popmq.errors import BrokerUnavailable, PopMQClientError, check
from popmq.message import Message, SendReceipt
from popmq.repeating import ask_each
from popmq.telemetry import Telemetry


class Sending:
    """Of one client."""

    def __init__(self, connection: Connection, telemetry: Telemetry) -> None:
        self._connection = connection
        self._telemetry = telemetry
        self.ids = MessageIds(uuid.getnode(), os.getpid(), int(time.time()))
        self._topics: dict[str, v2.Resource] = {}
        """Those that the server was told of."""
        self._telling: dict[str, asyncio.Task[None]] = {}

    async def topic(self, name: str) -> v2.Resource:
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
        resource = self._connection.resource(name)
        await self._telemetry.publish(resource)
        self._topics[name] = resource
        del self._telling[name]

    def draft(self, topic: v2.Resource, message: Message, compress_level: int = 0) -> v2.Message:
        """With an id of its own. `compress_level` 0: the body goes as it is."""
        now_ms = time.time_ns() // 1_000_000
        if not compress_level:
            return convert.outgoing(message, topic, self.ids.next(), now_ms)
        draft = convert.outgoing(message, topic, self.ids.next(), now_ms, packed=True)
        draft.body = compress.pack(message.body, compress_level)
        return draft

    async def send(
        self, topic: str, messages: Sequence[Message], attempts: int = ATTEMPTS
    ) -> list[SendReceipt | PopMQClientError]:
        """One request for all; per message its receipt or what went wrong with it. Raises what went
        wrong with the request."""
        resource = await self.topic(topic)
        drafts = [self.draft(resource, message) for message in messages]
        results = await self._receipts(drafts, attempts)
        for failures in range(1, attempts):
            again = [i for i, one in enumerate(results) if isinstance(one, BrokerUnavailable)]
            if not again:
                break
            await asyncio.sleep(BACKOFF.after(failures, random.random()))
            self._connection.go_elsewhere()
            found = await self._receipts([drafts[i] for i in again], attempts)
            for i, result in zip(again, found, strict=True):
                results[i] = result
        return results

    async def _receipts(
        self, drafts: list[v2.Message], attempts: int
    ) -> list[SendReceipt | PopMQClientError]:
        response = await self._ask(drafts, attempts)
        if len(response.entries) == len(drafts):
            return [_receipt(entry) for entry in response.entries]
        try:
            check(response.status)
        except BrokerUnavailable as failed:  # of all of them
            return [failed] * len(drafts)
        raise PopMQClientError(f"{len(response.entries)} entries were answered of {len(drafts)}")

    async def send_drafts(
        self, drafts: list[v2.Message], patience_s: float
    ) -> list[SendReceipt | Exception]:
        """The same, and what may yet be stored is tried for `patience_s`."""
        elsewhere = self._connection.go_elsewhere
        return await ask_each(
            drafts, lambda left: self._ask(left, 1), _stored, patience_s, elsewhere
        )

    async def _ask(self, drafts: list[v2.Message], attempts: int) -> Any:
        request = service.SendMessageRequest(messages=drafts)
        return await self._connection.ask(
            self._connection.stub.SendMessage, request, attempts=attempts
        )


def _receipt(entry: service.SendResultEntry) -> SendReceipt | PopMQClientError:
    try:
        check(entry.status)
    except PopMQClientError as refused:
        return refused
    return _stored(entry)


def _stored(entry: service.SendResultEntry) -> SendReceipt:
    return SendReceipt(
        message_id=entry.message_id, queue_offset=entry.offset, recall_handle=entry.recall_handle
    )
