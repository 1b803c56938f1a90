"""/metrics over HTTP, in a thread with an event loop of its own.

The figures are read on the service's event loop: what is read of its state is of one moment, and
nothing changes under the reader. Beside them stand the process's own (`process_…`) and its version.

Few may ask at a time, each has to ask and to read within a time, and pages are made one after the
other: whoever reaches the port takes next to nothing from the service.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final

from prometheus_client import CollectorRegistry, Info, Metric, ProcessCollector, make_wsgi_app
from prometheus_client.registry import Collector

from popmq_common.process.installed import version

CONNECTIONS_MAX: Final = 32
REQUEST_BYTES_MAX: Final = 8_192
REQUEST_S: Final = 5.0
"""How long a client may take to ask, and then to read what it gets."""
SCRAPE_S_MAX: Final = 10.0
PAGE_GAP_S: Final = 0.05
"""Between two pages, so that who asks all the time does not keep the service's loop busy."""


class _OnLoop(Collector):
    def __init__(self, inner: CollectorRegistry, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        """Called in the server's thread. Raises `TimeoutError` when the loop is held up."""
        found: Future[list[Metric]] = Future()
        self._loop.call_soon_threadsafe(self._read, found)
        return found.result(SCRAPE_S_MAX)

    def _read(self, found: "Future[list[Metric]]") -> None:
        try:
            found.set_result(list(self._inner.collect()))
        except Exception as bug:
            found.set_exception(bug)


def add_process(registry: CollectorRegistry) -> None:
    """The figures of this process, and its version."""
    ProcessCollector(registry=registry)
    build = Info("popmq_build", "Which PopMQ this is", registry=registry)
    build.info({"version": version()})


class MetricsServer:
    """`async with`: the page is served inside, with `tls` over HTTPS. Port 0 means none is.

    Entering raises `RuntimeError` when the port is taken.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        request_s: float = REQUEST_S,
    ) -> None:
        self._registry = registry
        self._host = host
        self.port = port
        self._request_s = request_s
        self._tls = tls

    async def __aenter__(self) -> "MetricsServer":
        if self.port:
            registry = CollectorRegistry()
            registry.register(_OnLoop(self._registry, asyncio.get_running_loop()))
            add_process(registry)
            self._pages = Pages(make_wsgi_app(registry), self._request_s, tls=self._tls)
            listening: Future[None] = Future()
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._pages.run(self._host, self.port, listening)),
                name="metrics",
                daemon=True,
            )
            self._thread.start()
            try:
                await asyncio.wrap_future(listening)
            except OSError as wrong:
                where = f"{self._host}:{self.port}"
                raise RuntimeError(f"cannot listen on {where} for /metrics: {wrong}") from wrong
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.port:
            self._pages.stop()
            await asyncio.to_thread(self._thread.join)


class Pages:
    """Serves a WSGI application in an event loop, within the bounds above."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        request_s: float,
        *,
        may_wait: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`may_wait`: a page may take long to be made; then a thread makes it, one at a time."""
        self._app = app
        self._request_s = request_s
        self._may_wait = may_wait
        self._tls = tls
        self._connections: set[asyncio.Task[Any]] = set()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._turn: asyncio.Lock

    async def run(self, host: str, port: int, listening: "Future[None]") -> None:
        """Until `stop`."""
        self._loop = asyncio.get_running_loop()
        self._stopping, self._turn = asyncio.Event(), asyncio.Lock()
        try:
            server = await asyncio.start_server(
                self._serve,
                host,
                port,
                limit=REQUEST_BYTES_MAX,
                ssl=self._tls,
                ssl_handshake_timeout=self._request_s if self._tls else None,
            )
        except OSError as taken:
            listening.set_exception(taken)
            return
        listening.set_result(None)
        await self._stopping.wait()
        server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def stop(self) -> None:
        """Any thread may call it while it runs."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._connections) < CONNECTIONS_MAX:
                self._connections.add(task)
                await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # it asked for nothing that there is, or has not read it
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._request_s):
            head = await reader.readuntil(b"\r\n\r\n")
        environ = _environ(head)
        async with self._turn:
            making = asyncio.to_thread if self._may_wait else _at_once
            page = await making(self._page, environ)
            await asyncio.sleep(PAGE_GAP_S)
        async with asyncio.timeout(self._request_s):
            writer.write(page)
            if not writer.can_write_eof():  # TLS: the farewell tells that this was all
                writer.close()
                await writer.wait_closed()
                return
            writer.write_eof()
            await writer.drain()
            while await reader.read(REQUEST_BYTES_MAX):
                pass  # until the client has it, and closes

    def _page(self, environ: dict[str, str]) -> bytes:
        told: list[str] = []

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            told.append(f"HTTP/1.0 {status}")
            told.extend(f"{name}: {value}" for name, value in headers)

        try:
            body = b"".join(self._app(environ, start_response))
        except TimeoutError:
            return b"HTTP/1.0 503 Service Unavailable\r\n\r\nthe service is held up\n"
        told.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*told, "", ""]).encode() + body


async def _at_once(made: Callable[[dict[str, str]], bytes], environ: dict[str, str]) -> bytes:
    return made(environ)


def _environ(head: bytes) -> dict[str, str]:
    """What WSGI wants to know of a request. Raises `ValueError`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() in ("accept", "accept-encoding"):
            environ["HTTP_" + name.upper().replace("-", "_")] = value.strip()
    return environ
