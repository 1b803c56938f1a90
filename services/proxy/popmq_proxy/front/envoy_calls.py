"""Calls of the Envoy front that need no task (front/direct.py): begun when their body has come.

pyvoy makes a task of whatever the application returns for a request. For a call that may do
without, that is an `EnvoyCall`, and the loop's task factory hands it back as it is. It looks at the
first piece of the request: if that is all and the call can be begun, no coroutine is ever made;
else the application serves it in a task, and finds the same piece again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from popmq_proxy.front.direct import Direct
from popmq_proxy.front.events import END, START, Event, Receive, Send
from popmq_proxy.front.grpc_wire import framed

WAITING_MAX: Final = 4096
"""Calls whose body has not come; what is above goes to the application, which has a limit."""


class Application(Protocol):
    @property
    def direct(self) -> Direct: ...

    def __call__(self, scope: Event, receive: Receive, send: Send) -> Coroutine[Any, Any, None]: ...


class EnvoyCalls:
    """Which calls wait for their bodies without a task."""

    def __init__(self, app: Application, waiting_max: int = WAITING_MAX) -> None:
        self.app = app
        self._waiting_max = waiting_max
        self.waiting_count = 0

    def take(self, scope: Event, receive: Receive, send: Send) -> "EnvoyCall | None":
        """None: the application is to serve it."""
        if self.waiting_count >= self._waiting_max or scope["path"] not in self.app.direct.rpcs:
            return None
        self.waiting_count += 1
        return EnvoyCall(self, scope, receive, send)


class EnvoyCall:
    """One of them; to pyvoy it looks like a task."""

    __slots__ = ("_calls", "_first", "_on_end", "_receive", "_scope", "_send")

    accounts = None  # calls from Envoy are bounded all together
    closed = False  # pyvoy tells only when asked; what is sent to one who left goes nowhere

    def __init__(self, calls: EnvoyCalls, scope: Event, receive: Receive, send: Send) -> None:
        self._calls = calls
        self._scope = scope
        self._receive = receive
        self._send = send
        self._first: Event | None = None
        self._on_end: Callable[[asyncio.Future[None]], object] | None = None
        asyncio.ensure_future(receive()).add_done_callback(self._came)

    def add_done_callback(self, on_end: Callable[[asyncio.Future[None]], object]) -> None:
        """pyvoy asks it for the error of a call that failed."""
        self._on_end = on_end

    def _came(self, coming: asyncio.Future[Event]) -> None:
        calls = self._calls
        calls.waiting_count -= 1
        try:
            first = self._first = coming.result()
            if (
                first["type"] != "http.request"
                or first.get("more_body")
                or not calls.app.direct.begin(self._scope, first.get("body", b""), self)
            ):
                self.begin_task()
        except Exception as error:
            self._fail(error)

    def begin_task(self) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._calls.app(self._scope, self._receive_again, self._send))
        if self._on_end is not None:
            task.add_done_callback(self._on_end)

    async def _receive_again(self) -> Event:
        first, self._first = self._first, None
        return await self._receive() if first is None else first

    def answer(self, response: bytes) -> None:
        """Nothing is awaited: pyvoy takes each of the three at once."""
        self._send(START)
        self._send({"type": "http.response.body", "body": framed([response]), "more_body": False})
        self._send(END)

    def _fail(self, error: Exception) -> None:
        """pyvoy says what went wrong and ends the call."""
        if self._on_end is None:
            raise error
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        self._on_end(failed)


def task_factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
    """For `loop.set_task_factory`: an `EnvoyCall` is its own task."""
    if isinstance(coro, EnvoyCall):
        return coro
    return asyncio.Task(coro, loop=loop, **options)
