"""The client without asyncio: for scripts, Flask, Spark.

with Client("127.0.0.1:8081") as client:
    client.producer().send("orders", b"hello")
    consumer = client.consumer("orders", "billing")
    for message in consumer:
        work(message.body)
        consumer.ack(message)

Everything is done by the async client, in one thread with an event loop of its own; any number of
threads may call. A process that forks makes its client afterwards.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, Generic, Literal, Self, TypeVar, Unpack, overload

from popmq.admin.sync_admin import SyncAdmin
from popmq.client import Client as AsyncClient
from popmq.consumer.consumer import Consumer as AsyncConsumer
from popmq.consumer.consumer import ConsumerOptions
from popmq.errors import ClientClosed, PopMQClientError
from popmq.message import Message, ReceivedMessage, SendOptions
from popmq.producer.producer import Producer as AsyncProducer
from popmq.producer.producer import ProducerBounds
from popmq.send_receipt import SendReceipt
from popmq.serializer import Serializer

T = TypeVar("T")
R = TypeVar("R")
STOP_S: Final = 10.0
"""How long the thread may take to end."""


class Loop:
    """An event loop in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop, self._thread_id = loop, thread_id
        self._closed = False

    def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Its result, or what it raises. An interrupt (Ctrl-C) cancels it."""
        if self._closed or threading.get_ident() == self._thread_id:
            work.close()
            if self._closed:
                raise ClientClosed("the client is closed")
            raise RuntimeError("the sync client was called from its own event loop")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed before the answer came") from None
        except BaseException:
            future.cancel()
            raise


class OwnLoop(Loop):
    """With a thread for it alone."""

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="popmq-sync", daemon=True)
        self._loop = loop
        self._thread.start()
        super().__init__(loop, self._thread.ident or 0)

    def close(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()


class SyncProducer(Generic[T]):
    """See `popmq.Producer`."""

    def __init__(self, loop: Loop, made: AsyncProducer[T]) -> None:
        self._loop, self._made = loop, made

    def send(self, topic: str, body: T, **options: Unpack[SendOptions]) -> SendReceipt:
        return self._loop.call(self._made.send(topic, body, **options))

    @overload
    def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: Literal[False] = False
    ) -> list[SendReceipt]: ...
    @overload
    def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool
    ) -> list[SendReceipt | PopMQClientError]: ...
    def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool = False
    ) -> Any:
        work = self._made.send_many(topic, messages, return_exceptions=return_exceptions)
        return self._loop.call(work)

    def flush(self) -> None:
        self._loop.call(self._made.flush())


class SyncConsumer:
    """See `popmq.Consumer`. Messages are settled here: `message.ack()` is for async code."""

    def __init__(self, loop: Loop, made: AsyncConsumer) -> None:
        self._loop, self._made = loop, made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def receive(self, max_messages: int = 16, wait_s: float | None = None) -> list[ReceivedMessage]:
        return self._loop.call(self._made.receive(max_messages, wait_s))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        messages = self._made.__aiter__()
        while True:
            try:
                yield self._loop.call(_next(messages))
            except StopAsyncIteration:
                return

    def ack(self, message: ReceivedMessage) -> None:
        self._loop.call(self._made.ack(message))

    def nack(
        self,
        message: ReceivedMessage,
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None:
        self._loop.call(self._made.nack(message, delay_s, reason, counted=counted))

    def reject(self, message: ReceivedMessage, reason: str) -> None:
        self._loop.call(self._made.reject(message, reason))

    def extend(self, message: ReceivedMessage, seconds: float) -> None:
        self._loop.call(self._made.extend(message, seconds))

    def close(self) -> None:
        self._loop.call(self._made.close())


class SyncClient:
    """See `popmq.Client`; the arguments are the same."""

    def __init__(self, endpoint: str = "127.0.0.1:8081", **options: Any) -> None:
        self._begin(AsyncClient(endpoint, **options), OwnLoop())

    def _begin(self, made: AsyncClient, loop: Loop) -> None:
        self._made, self._loop = made, loop
        self.admin = SyncAdmin(loop, made.admin)
        """Topics, groups, dead letters, messages, transactions."""

    @classmethod
    def of(cls, made: AsyncClient, loop: asyncio.AbstractEventLoop, thread_id: int) -> Self:
        """For other threads of a program whose async client lives in that loop and thread. Closing
        it closes nothing."""
        found = cls.__new__(cls)
        found._begin(made, Loop(loop, thread_id))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """What was sent and settled is answered first. Calls of other threads end with an error."""
        if isinstance(self._loop, OwnLoop):
            self._loop.call(self._made.close())
            self._loop.close()

    @overload
    def producer(self, **bounds: Unpack[ProducerBounds]) -> SyncProducer[bytes]: ...
    @overload
    def producer(
        self, serializer: Serializer[T], **bounds: Unpack[ProducerBounds]
    ) -> SyncProducer[T]: ...
    def producer(
        self, serializer: Serializer[Any] | None = None, **bounds: Unpack[ProducerBounds]
    ) -> SyncProducer[Any]:
        if serializer is None:
            return SyncProducer(self._loop, self._made.producer(**bounds))
        return SyncProducer(self._loop, self._made.producer(serializer, **bounds))

    def consumer(self, topic: str, group: str, **options: Unpack[ConsumerOptions]) -> SyncConsumer:
        return SyncConsumer(self._loop, self._made.consumer(topic, group, **options))

    def send(self, topic: str, body: bytes, **options: Unpack[SendOptions]) -> SendReceipt:
        """One message in a request of its own; a `producer` shares requests among threads."""
        return self._loop.call(self._made.send(topic, body, **options))

    def recall(self, topic: str, recall_handle: str) -> None:
        self._loop.call(self._made.recall(topic, recall_handle))


async def _next(messages: Any) -> ReceivedMessage:
    message: ReceivedMessage = await anext(messages)
    return message


# The names that code without asyncio imports from here.
Client = SyncClient
Consumer = SyncConsumer
Producer = SyncProducer
