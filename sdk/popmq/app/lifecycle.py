"""One run of an app, from its client to "ready", and back.

client → topics and groups → lifespan, on_startup → handlers subscribe → ready → after_startup
client ← lifespan ← on_shutdown ← handlers end
"""

import asyncio
import contextlib
import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from popmq.access.credentials import Credentials
from popmq.admin.topology import Topology
from popmq.app.handler_layers import Middleware
from popmq.app.subscription import Subscription
from popmq.app.subscription_runner import SubscriptionRunner
from popmq.client import Client
from popmq.connection.endpoints import Tls
from popmq.connection.pause import pause
from popmq.errors import PopMQClientError
from popmq.handle_once import Idempotence
from popmq.log_fields import fields, level_of

log = logging.getLogger(__name__)
T = TypeVar("T")
Hook = Callable[[], Awaitable[None] | None]


@dataclass
class Launch:
    """What a launcher (`popmq run`) says to the apps that it runs."""

    endpoint: str = ""
    """Instead of the app's own; empty: that."""
    tls: bool | Tls | None = None
    """The same; of a `Tls` what it has, for an app that has one. None: that."""
    credentials: Credentials | None = None
    """Instead of the app's own; None: those."""
    ran: list[object] = field(default_factory=list)
    """Apps that have run."""

    def client(self, endpoint: str, options: Mapping[str, Any]) -> Client:
        """Of an app that has these. Raises `PopMQClientError` when they do not fit together."""
        tls, own = self.tls, options.get("tls")
        if isinstance(own, Tls) and isinstance(tls, Tls):
            shown = own if tls.certificate is None else tls
            tls = replace(own, ca=tls.ca or own.ca, certificate=shown.certificate, key=shown.key)
        elif not tls or (tls is True and isinstance(own, Tls)):
            tls = own
        if self.credentials is not None:
            options = {**options, "credentials": self.credentials}
        try:
            return Client(self.endpoint or endpoint, **{**options, "tls": tls})
        except ValueError as wrong:
            raise PopMQClientError(str(wrong)) from wrong


LAUNCH: Final[ContextVar[Launch]] = ContextVar("popmq.app.launch")


@dataclass(frozen=True, slots=True)
class Hooks:
    on_startup: list[Hook] = field(default_factory=list)
    after_startup: list[Hook] = field(default_factory=list)
    on_shutdown: list[Hook] = field(default_factory=list)


class StoppedEarly(Exception):
    """The app was to stop before it was ready."""


class AppRun:
    """`start`, `wait` and `close` are called in one task."""

    def __init__(
        self,
        client: Client,
        *,
        is_own: bool,
        subscriptions: Sequence[Subscription],
        topology: Topology,
        guards: Sequence[Idempotence],
        retention_s: float | None,
        middlewares: Sequence[Middleware],
        lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None,
        hooks: Hooks,
        stop_s: float,
    ) -> None:
        """`is_own`: the client is closed in the end."""
        self.client = client
        self.loop, self.thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._topology = topology
        self._guards, self._retention_s = guards, retention_s
        self._lifespan, self._hooks, self._stop_s = lifespan, hooks, stop_s
        self._runners = [SubscriptionRunner(client, one, middlewares) for one in subscriptions]
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._open = AsyncExitStack()
        if is_own:
            self._open.push_async_callback(client.close)

    async def start(self) -> None:
        """Until the handlers are subscribed. Raises `StoppedEarly`, what the hooks raise, and
        the errors of `popmq.errors` that no other try would mend."""
        await self._answered(lambda: self._topology.ensure(self.client.admin))
        if self._lifespan is not None:
            await self._open.enter_async_context(self._lifespan())
        await _called(self._hooks.on_startup)
        self._open.push_async_callback(_called, self._hooks.on_shutdown)
        for guard in self._guards:  # behind the hooks, which may make their tables
            await guard.start(self._retention_s)
        for runner in self._runners:  # one stream for each group, so one after the other
            await self._answered(runner.subscribe)
        self._open.push_async_callback(self._end_handlers)
        for runner in self._runners:
            task = asyncio.create_task(runner.run())
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        where = self.client.connection.endpoint
        count = len(self._runners)
        log.info("ready: %d handler%s at %s", count, "" if count == 1 else "s", where)
        await _called(self._hooks.after_startup)

    async def wait(self) -> None:
        """Until it is to stop."""
        await self._stopping.wait()

    async def close(self) -> None:
        """Handlers end, then all else. Raises what a handler's task has ended with."""
        await self._open.aclose()

    def stop(self) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped
            self.loop.call_soon_threadsafe(self._stopping.set)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Without `stop`: something is wrong for good."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            log.error("the app stops: %s", wrong, extra=fields(None, wrong))
        self._stopping.set()

    async def _end_handlers(self) -> None:
        try:
            await asyncio.gather(*(one.stop(self._stop_s) for one in self._runners))
        finally:
            done = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def _answered(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Asked again as long as that may help."""
        failures = 0
        while True:
            try:
                return await self._unless_stopped(ask())
            except PopMQClientError as failed:
                if not failed.retriable:
                    raise
                level = logging.DEBUG if failures else level_of(failed)
                log.log(level, "not ready yet: %s", failed, extra=fields(None, failed))
            failures += 1
            await self._unless_stopped(pause(failures))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        task, stopping = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StoppedEarly
            return task.result()
        finally:
            for one in (task, stopping):
                one.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)


@contextlib.contextmanager
def signals(running: AppRun) -> Iterator[None]:
    """SIGTERM and SIGINT stop it once; the next one cancels the current task."""
    task = asyncio.current_task()

    def asked(number: int) -> None:
        if running.is_stopping and task is not None:
            task.cancel()
        log.info("%s: stopping", signal.Signals(number).name)
        running.stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        running.loop.add_signal_handler(number, asked, number)
    try:
        yield
    finally:
        for number in numbers:
            running.loop.remove_signal_handler(number)


async def _called(hooks: Sequence[Hook]) -> None:
    for hook in hooks:
        waits = hook()
        if inspect.isawaitable(waits):
            await waits
