"""/metrics over HTTP, by prometheus-client's own server in its own thread."""

from types import TracebackType

from prometheus_client import CollectorRegistry, start_http_server


class MetricsServer:
    """`async with`: the page is served inside. Port 0 means none is."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        self._registry = registry
        self._host = host
        self.port = port

    async def __aenter__(self) -> "MetricsServer":
        if self.port:
            self._server, self._thread = start_http_server(
                self.port, addr=self._host, registry=self._registry
            )
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
