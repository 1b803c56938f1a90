"""/metrics over HTTP, by prometheus-client's own server in its own thread.

The figures are read on the event loop: what is read of a service's state is of one moment, and
nothing changes under the reader. Beside them stand the process's own (`process_…`) and its version.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from importlib.metadata import version
from types import TracebackType

from prometheus_client import CollectorRegistry, Info, Metric, ProcessCollector, start_http_server
from prometheus_client.registry import Collector

SCRAPE_S_MAX = 10.0


class _OnLoop(Collector):
    def __init__(self, inner: CollectorRegistry, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        """Called in the server's threads. Raises `TimeoutError` when the loop is held up."""
        found: Future[list[Metric]] = Future()
        self._loop.call_soon_threadsafe(self._read, found)
        return found.result(SCRAPE_S_MAX)

    def _read(self, found: "Future[list[Metric]]") -> None:
        try:
            found.set_result(list(self._inner.collect()))
        except Exception as bug:
            found.set_exception(bug)


class MetricsServer:
    """`async with`: the page is served inside. Port 0 means none is.

    Entering raises `RuntimeError` when the port is taken.
    """

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        self._registry = registry
        self._host = host
        self.port = port

    async def __aenter__(self) -> "MetricsServer":
        if self.port:
            registry = CollectorRegistry()
            registry.register(_OnLoop(self._registry, asyncio.get_running_loop()))
            ProcessCollector(registry=registry)
            Info("popmq_build", "Which PopMQ this is", registry=registry).info(
                {"version": version("popmq")}
            )
            try:
                self._server, self._thread = start_http_server(
                    self.port, addr=self._host, registry=registry
                )
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
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
