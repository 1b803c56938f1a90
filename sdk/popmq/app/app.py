"""Handlers: functions that the messages of a topic are given to.

app = App("127.0.0.1:8081")
app.group("billing", start="first")

@app.handler("orders", "billing", concurrency=8)
async def bill(message: ReceivedMessage) -> None:
    ...

asyncio.run(app.run())          # or: popmq run module:app

What a handler returns or raises decides what becomes of its message: `popmq.outcome`. SIGTERM and
SIGINT end `run` in order: nothing more is received, handlers end within `stop_s`, what is left
is given back uncounted.
"""

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Concatenate, Self, TypeVar, Unpack, overload

from popmq._core.parameters import name
from popmq._core.topology import GroupOptions, TopicOptions
from popmq.admin.topology import Topology
from popmq.app.handler_layers import Middleware, TypedRegister, handler_of, once
from popmq.app.lifecycle import LAUNCH, AppRun, Hook, Hooks, Launch, StoppedEarly
from popmq.app.lifecycle import signals as handled
from popmq.app.subscription import Subscription
from popmq.client import Client
from popmq.connection.endpoints import Endpoints
from popmq.handle_once import Idempotence
from popmq.message import ReceivedMessage
from popmq.serializer import Serializer
from popmq.sync import SyncClient

T = TypeVar("T")
Plain = TypeVar(
    "Plain",
    bound=Callable[Concatenate[ReceivedMessage, ...], Awaitable[None] | None]
    | Callable[Concatenate[bytes, ...], Awaitable[None] | None],
)
Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]
Started = TypeVar("Started", bound=Hook)
Around = TypeVar("Around", bound=Middleware)


class App:
    """Handlers of one client. The client's arguments: as of `Client`, or a client of your own,
    which you close."""

    def __init__(
        self,
        endpoint: str | Client = "127.0.0.1:8081",
        *,
        lifespan: Lifespan | None = None,
        stop_s: float = 20.0,
        retention_s: float | None = None,
        **options: Any,
    ) -> None:
        """`lifespan`: an async context manager, entered before the handlers start and left when
        they have ended; it gets the app. `stop_s`: how long handlers may take to end; below the
        grace period of whoever sends SIGTERM. `retention_s`: how long the server keeps messages,
        for idempotent handlers. Raises `ValueError` for an endpoint that is none, `TypeError` for
        an option that the client does not have."""
        self.endpoint = endpoint
        """May be changed until `run`."""
        if isinstance(endpoint, str):
            inspect.signature(Client).bind(endpoint, **options)
            Endpoints.of(endpoint, options.get("tls"))
        elif options:
            raise TypeError(f"{', '.join(options)}: the client that the app is given has its own")
        self._options = options
        self._lifespan = lifespan
        self._stop_s = stop_s
        self._retention_s = retention_s
        self._topology = Topology()
        self._subscriptions: list[Subscription] = []
        self._idempotence: list[Idempotence] = []
        self._middlewares: list[Middleware] = []
        self._hooks = Hooks()
        self._running: AppRun | None = None

    @property
    def client(self) -> Client:
        """Of the running app: for handlers that send. Raises `RuntimeError` before `run`."""
        return self._run_of("client").client

    @property
    def sync_client(self) -> SyncClient:
        """The same client, for handlers without `async`. Raises `RuntimeError` before `run`."""
        running = self._run_of("sync_client")
        return SyncClient.of(running.client, running.loop, running.thread_id)

    @property
    def handles(self) -> bool:
        """It has a handler."""
        return bool(self._subscriptions)

    def _run_of(self, what: str) -> AppRun:
        if self._running is None:
            raise RuntimeError(f"app.{what} is there while the app runs")
        return self._running

    # what there is to be

    def topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """The topic is there when the app starts: made, or changed in what is said here. Raises
        `ValueError` for one that was declared otherwise."""
        self._topology.topic(name, **options)

    def group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """The same for a group. Where it starts counts as long as it has not started."""
        self._topology.group(name, **options)

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
    ) -> TypedRegister[T]: ...
    def handler(
        self,
        topic: str,
        group: str,
        *,
        serializer: Serializer[Any] | None = None,
        idempotent: Idempotence | None = None,
        **how: Any,
    ) -> Callable[[Any], Any]:
        """Messages of `topic` for `group` go to the function, which takes the message or, annotated
        as `bytes`, the body. With a `serializer` it takes the body as a value, and the message if
        it wants that too; a body that cannot be read is rejected.

        `concurrency`: messages handled at a time. `prefetch`: how many more may wait here; their
        leases are renewed meanwhile. `lease_s`: after a crash they are redelivered after so long.
        `lease_longest_s`: a handler that takes longer loses its message. `retry`: seconds to wait
        after the first failure, the second, and so on; None: the group's retry policy. A function
        without `async` runs in a thread. Raises `TypeError` and `ValueError` for what could not
        work.
        """
        for what, given in (("topic", topic), ("group", group)):
            if not isinstance(given, str):
                text = f"a {what} is text, not {type(given).__name__}: @app.handler(topic, group)"
                raise TypeError(text)
            if not given:
                raise ValueError(f"a {what} has a name: @app.handler(topic, group)")

        def register(function: Any) -> Any:
            subscription = Subscription(
                topic=topic,
                group=group,
                handler=handler_of(function, serializer),
                name=name(function),
                layers=() if idempotent is None else (once(idempotent),),
                **how,
            )
            for other in self._subscriptions:
                if (other.topic, other.group) == (topic, group):
                    text = f"group {group} has a handler for topic {topic}: {other.name}"
                    raise ValueError(f"{text}; give {subscription.name} a group of its own")
            self._subscriptions.append(subscription)
            if idempotent is not None:
                self._idempotence.append(idempotent)
            return function

        return register

    def middleware(self, function: Around) -> Around:
        """Called with each message and the rest: `async def timed(message, call_next)`. What it
        raises counts as what the handler raises. The first one is outermost."""
        self._middlewares.append(function)
        return function

    # its life

    def on_startup(self, function: Started) -> Started:
        """Called before the handlers start; may send."""
        self._hooks.on_startup.append(function)
        return function

    def after_startup(self, function: Started) -> Started:
        """Called when the handlers receive: what is sent from now on reaches new groups too."""
        self._hooks.after_startup.append(function)
        return function

    def on_shutdown(self, function: Started) -> Started:
        """Called when the handlers have ended; may send."""
        self._hooks.on_shutdown.append(function)
        return function

    def stop(self) -> None:
        """End `run` in order, as SIGTERM does. Any thread may call it."""
        if self._running is not None:
            self._running.stop()

    async def run(self, *, signals: bool = True) -> None:
        """Until SIGTERM, SIGINT or `stop`; a second signal ends it without waiting for handlers.
        Raises the errors of `popmq.errors` that another try would not mend, at the start."""
        running = self._begin()
        with handled(running) if signals else contextlib.nullcontext():
            try:
                with contextlib.suppress(StoppedEarly):
                    await running.start()
                    await running.wait()
            finally:
                await self._end()

    async def __aenter__(self) -> Self:
        """It runs beside what the block does, without signals, and is ready when that begins."""
        running = self._begin()
        try:
            await running.start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._end()

    def _begin(self) -> AppRun:
        if not self.handles:
            raise RuntimeError("the app has no handler: @app.handler(topic, group)")
        if self._running is not None:
            raise RuntimeError("the app runs already")
        client = self.endpoint
        launch = LAUNCH.get(Launch())
        launch.ran.append(self)
        if isinstance(client, str):
            client = launch.client(client, self._options)
        self._running = AppRun(
            client,
            is_own=client is not self.endpoint,
            subscriptions=self._subscriptions,
            topology=self._topology,
            guards=self._idempotence,
            retention_s=self._retention_s,
            middlewares=self._middlewares,
            lifespan=partial(self._lifespan, self) if self._lifespan is not None else None,
            hooks=self._hooks,
            stop_s=self._stop_s,
        )
        return self._running

    async def _end(self) -> None:
        assert self._running is not None
        try:
            await self._running.close()
        finally:
            self._running = None
