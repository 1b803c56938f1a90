"""The producer: many sends at a time, in few requests.

producer = client.producer()
receipt = await producer.send("orders", b"hello")
results = await producer.send_many("orders", [Message(body=b"1"), Message(body=b"2")])

While a request is under way, what is sent gathers for the next one. Messages of message groups
have one request under way at a time and topic, so their order is that of the calls. When too much
is held, a send waits. A message is tried for `retry_s`; when an answer was lost, it may be stored
twice, under one message id.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Literal, Self, TypedDict, TypeVar, overload

from popmq._core.batch_queue import BatchBounds
from popmq.connection.batcher import Answers, Batcher
from popmq.connection.budget_gate import BudgetGate
from popmq.errors import ClientClosed, NotAllSent, PopMQClientError
from popmq.message import Message, size_bytes
from popmq.producer.sending import Sending
from popmq.send_receipt import SendReceipt
from popmq.serializer import Serializer

T = TypeVar("T")
MESSAGES_MAX: Final = 256
"""In one request; PopMQ takes 1,024. A request costs as much as some fifty messages in it."""
BYTES_MAX: Final = 4 * 1024 * 1024
COMPRESS_LEVEL: Final = 5


class ProducerBounds(TypedDict, total=False):
    """What `Client.producer` hands on to `Producer`, where each is explained."""

    batch_messages_max: int
    batch_bytes_max: int
    batch_wait_s: float
    requests_max: int
    held_messages_max: int
    held_bytes_max: int
    retry_s: float
    compress_from_bytes: int | None


class Bytes:
    """The serializer of those who want none."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, body: bytes) -> bytes:
        return body


class Producer(Generic[T]):
    """Made by `Client.producer`. Every method raises the errors of `popmq.errors`."""

    def __init__(
        self,
        sending: Sending,
        serializer: Serializer[T],
        *,
        batch_messages_max: int = MESSAGES_MAX,
        batch_bytes_max: int = BYTES_MAX,
        batch_wait_s: float = 0.02,
        requests_max: int = 4,
        held_messages_max: int = 2_048,
        held_bytes_max: int = 64 * 1024 * 1024,
        retry_s: float = 30.0,
        compress_from_bytes: int | None = None,
    ) -> None:
        """`batch_wait_s`: so long a message waits for a request under way before it leaves in one
        beside it. `requests_max`: under way at a time, per topic. `held_messages_max`,
        `held_bytes_max`: of messages that are not answered; a send waits for room.
        `compress_from_bytes`: bodies so large are compressed (gzip); None: none are.
        """
        self._sending = sending
        self._serializer = serializer
        self._normal = BatchBounds(
            items_max=batch_messages_max,
            bytes_max=batch_bytes_max,
            linger_s=batch_wait_s,
            under_way_max=requests_max,
        )
        self._fifo = BatchBounds(
            items_max=batch_messages_max,
            bytes_max=batch_bytes_max,
            linger_s=batch_wait_s,
            under_way_max=1,
        )
        self._gate = BudgetGate(held_messages_max, held_bytes_max)
        self._retry_s = retry_s
        self._compress_from = compress_from_bytes
        self._batchers: dict[tuple[str, bool], Batcher[bytes, SendReceipt]] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    @property
    def held(self) -> int:
        """Messages that have not been answered."""
        return self._gate.messages

    async def send(
        self,
        topic: str,
        body: T,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> SendReceipt:
        """Returns when the message is stored; with the server's default, on disk."""
        sending = self._sending
        encoder = sending.known(topic) or await sending.topic(topic)
        written = self._serializer.encode(body)
        draft = sending.draft_of(
            encoder,
            written,
            tag=tag,
            keys=keys,
            properties=properties,
            message_group=message_group,
            delay_s=delay_s,
            deliver_at=deliver_at,
            compress_level=self._compress_level(written),
        )
        size = size_bytes(written, properties)
        if not self._gate.try_enter(size):
            await self._gate.enter(size)
        return await self._batcher(topic, message_group is not None, size).one(draft, size)

    @overload
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: Literal[False] = False
    ) -> list[SendReceipt]: ...
    @overload
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool
    ) -> list[SendReceipt | PopMQClientError]: ...
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool = False
    ) -> Any:
        """Any number of messages, in as many requests as they need; the bodies are bytes, whatever
        the serializer. Raises `NotAllSent`, which has the result of each, if one was not stored;
        `return_exceptions`: per message its receipt or what went wrong with it."""
        results = await self._results(topic, messages)
        return results if return_exceptions else all_sent(results)

    async def _results(
        self, topic: str, messages: Sequence[Message]
    ) -> list[SendReceipt | PopMQClientError]:
        if not messages:
            return []
        encoder = await self._sending.topic(topic)
        answers: Answers[SendReceipt] = Answers(len(messages))
        gate = self._gate
        for index, message in enumerate(messages):
            draft = self._sending.draft(encoder, message, self._compress_level(message.body))
            size = size_bytes(message.body, message.properties)
            if not gate.try_enter(size):
                await gate.enter(size)
            batcher = self._batcher(topic, message.message_group is not None, size)
            batcher.put(draft, size, partial(answers.answer, index))
        await answers.done
        return [_error_or(result) for result in answers.results]

    async def flush(self) -> None:
        """Until everything that was sent so far is answered."""
        await asyncio.gather(*(batcher.drain() for batcher in self._batchers.values()))

    async def close(self) -> None:
        """Takes nothing more, and waits for the answers; at most `retry_s` and a request."""
        self._closed = True
        await self.flush()

    def _compress_level(self, body: bytes) -> int:
        if self._compress_from is None or len(body) < self._compress_from:
            return 0
        return COMPRESS_LEVEL

    def _batcher(self, topic: str, fifo: bool, size: int) -> Batcher[bytes, SendReceipt]:
        """Where one of `size` bytes that has entered the gate goes on."""
        if self._closed:
            self._gate.leave(size)
            raise ClientClosed("the producer is closed")
        batcher = self._batchers.get((topic, fifo))
        if batcher is None:
            bounds = self._fifo if fifo else self._normal
            batcher = self._batchers[topic, fifo] = Batcher(
                partial(self._ask, topic), bounds, self._gate
            )
        return batcher

    async def _ask(self, topic: str, drafts: list[bytes]) -> Sequence[SendReceipt | Exception]:
        return await self._sending.send_drafts(topic, drafts, self._retry_s)


def all_sent(results: list[SendReceipt | PopMQClientError]) -> list[SendReceipt]:
    """Raises `NotAllSent`."""
    receipts = [one for one in results if isinstance(one, SendReceipt)]
    if len(receipts) < len(results):
        raise NotAllSent(results)
    return receipts


def _error_or(result: SendReceipt | Exception) -> SendReceipt | PopMQClientError:
    """What is no error of the client's is a mistake in it, and is raised."""
    if isinstance(result, Exception) and not isinstance(result, PopMQClientError):
        raise result
    return result
