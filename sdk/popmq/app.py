"""Handlers: functions that the messages of a topic are given to.

app = App("127.0.0.1:8081")

@app.handler("orders", "billing", concurrency=8)
async def bill(message: ReceivedMessage) -> None:
    ...

asyncio.run(app.run())          # or: popmq run module:app

What a handler returns or raises decides what becomes of its message: `popmq.outcome`. SIGTERM and
SIGINT end `run` in order: nothing more is received, handlers end within `stop_s`, what is left
is given back uncounted.
"""

import asyncio
import contextlib
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

from popmq.client import Client
from popmq.handling import Handler, Handling, Subscription
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.outcome import Reject
from popmq.serializer import Serializer

log = logging.getLogger(__name__)
T = TypeVar("T")
Handle = Callable[[ReceivedMessage], Awaitable[None]]
Plain = TypeVar("Plain", bound=Callable[[ReceivedMessage], Awaitable[None] | None])


class Idempotence(Protocol):
    """What keeps a handler from doing a thing twice; `popmq.idempotence` has some."""

    async def start(self, retention_s: float | None) -> None:
        """Before the first message. `retention_s`: how long the server keeps messages, if it is
        known."""

    async def run(self, message: ReceivedMessage, handle: Handle) -> bool:
        """True: it was handled now. False: it is a duplicate, and is acked. Raises `Retry` while
        another consumer handles the same, and whatever the handler raises."""


class App:
    """Handlers of one client. The client's arguments: as of `Client`, or a client of your own,
    which you close."""

    def __init__(
        self,
        endpoint: str | Client = "127.0.0.1:8081",
        *,
        stop_s: float = 20.0,
        retention_s: float | None = None,
        **options: Any,
    ) -> None:
        """`stop_s`: how long handlers may take to end; below the grace period of whoever sends
        SIGTERM. `retention_s`: how long the server keeps messages, for idempotent handlers."""
        self.endpoint = endpoint
        """May be changed until `run`."""
        self._options = options
        self._stop_s = stop_s
        self._retention_s = retention_s
        self._subscriptions: list[Subscription] = []
        self._idempotence: list[Idempotence] = []
        self._stopping: asyncio.Event | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Of the running app: for handlers that send. Raises `RuntimeError` before `run`."""
        if self._client is None:
            raise RuntimeError("app.client is there while the app runs")
        return self._client

    @overload
    def handler(
        self,
        topic: str,
        group: str,
        *,
        filter: str = "*",
        sql: str = "",
        concurrency: int = 1,
        prefetch: int = 0,
        lease_s: float = 30.0,
        lease_longest_s: float = 3_600.0,
        retry: Sequence[float] | None = None,
        idempotent: Idempotence | None = None,
    ) -> Callable[[Plain], Plain]: ...
    @overload
    def handler(
        self,
        topic: str,
        group: str,
        *,
        serializer: Serializer[T],
        filter: str = "*",
        sql: str = "",
        concurrency: int = 1,
        prefetch: int = 0,
        lease_s: float = 30.0,
        lease_longest_s: float = 3_600.0,
        retry: Sequence[float] | None = None,
        idempotent: Idempotence | None = None,
    ) -> Callable[
        [Callable[[T, ReceivedMessage], Awaitable[None] | None]],
        Callable[[T, ReceivedMessage], Awaitable[None] | None],
    ]: ...
    def handler(
        self,
        topic: str,
        group: str,
        *,
        serializer: Serializer[Any] | None = None,
        idempotent: Idempotence | None = None,
        **how: Any,
    ) -> Callable[[Any], Any]:
        """Messages of `topic` for `group` go to the function. With a `serializer` it gets the body
        as a value, and the message; a body that cannot be read is rejected.

        `concurrency`: messages handled at a time. `prefetch`: how many more may wait here; their
        leases are renewed meanwhile. `lease_s`: after a crash they come again after so long.
        `lease_longest_s`: a handler that takes longer loses its message. `retry`: seconds to wait
        after the first failure, the second, and so on; None: the group's retry policy. A function
        without `async` runs in a thread.
        """

        def register(function: Any) -> Any:
            handle: Handler = function
            if serializer is not None:
                handle = _typed(function, serializer)
            if idempotent is not None:
                self._idempotence.append(idempotent)
                handle = _once(_awaited(handle), idempotent)
            subscription = Subscription(topic=topic, group=group, handler=handle, **how)
            self._subscriptions.append(subscription)
            return function

        return register

    def stop(self) -> None:
        """End `run` in order, as SIGTERM does."""
        if self._stopping is not None:
            self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Until SIGTERM, SIGINT or `stop`; a second signal ends it without waiting for handlers.
        Raises the errors of `popmq.errors` that another try would not mend, at the start."""
        if not self._subscriptions:
            raise RuntimeError("the app has no handler: @app.handler(topic, group)")
        self._stopping = asyncio.Event()
        for guard in self._idempotence:
            await guard.start(self._retention_s)
        own = not isinstance(self.endpoint, Client)
        client = self._client = (
            Client(self.endpoint, **self._options)
            if isinstance(self.endpoint, str)
            else self.endpoint
        )
        running = [Handling(client, subscription) for subscription in self._subscriptions]
        try:
            with self._signals() if signals else contextlib.nullcontext():
                log.info("running %d handlers at %s", len(running), client.connection.endpoint)
                await self._run(running)
        finally:
            if own:
                await client.close()
            self._client = None

    async def _run(self, running: list[Handling]) -> None:
        assert self._stopping is not None
        tasks = [asyncio.create_task(one.run()) for one in running]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await asyncio.gather(*(one.stop(self._stop_s) for one in running))
            done = await asyncio.gather(*tasks, return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result

    @contextlib.contextmanager
    def _signals(self) -> Any:
        """SIGTERM and SIGINT set the event once; the next one cancels `run`."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def asked(number: int) -> None:
            assert self._stopping is not None
            if self._stopping.is_set() and task is not None:
                task.cancel()
            log.info("%s: stopping", signal.Signals(number).name)
            self._stopping.set()

        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, asked, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _typed(function: Callable[..., Any], serializer: Serializer[Any]) -> Handler:
    """The body is read first."""

    def value(message: ReceivedMessage) -> Any:
        try:
            return serializer.decode(message.body)
        except Exception as wrong:
            raise Reject(f"its body cannot be read: {wrong}") from wrong

    if inspect.iscoroutinefunction(function):

        async def handle(message: ReceivedMessage) -> None:
            await function(value(message), message)

        return handle

    def handle_in_thread(message: ReceivedMessage) -> None:
        function(value(message), message)

    return handle_in_thread


def _once(handle: Handle, guard: Idempotence) -> Handler:
    async def guarded(message: ReceivedMessage) -> None:
        if not await guard.run(message, handle):
            more = fields(message)
            log.info("message %s is a duplicate, and is acked", message.message_id, extra=more)

    return guarded


def _awaited(handler: Handler) -> Handle:
    """A function without `async`, in a thread."""
    if inspect.iscoroutinefunction(handler):
        return handler

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.to_thread(handler, message)

    return handle
