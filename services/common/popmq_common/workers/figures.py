"""The pages of metrics of all workers as one: each row says which worker it is of."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from popmq_common.metrics.metrics_http import REQUEST_S, SCRAPE_S_MAX, Pages


@asynccontextmanager
async def figures_page(
    read: Callable[[], Coroutine[Any, Any, Mapping[int, str]]],
    label: str,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[None]:
    """One page for all while the context lasts; port 0: none. `read`: the pages of the workers,
    `label`: under which each row says whose it is. Raises `RuntimeError` when the port is
    taken."""
    if not port:
        yield
        return
    loop = asyncio.get_running_loop()

    def app(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
        pages = asyncio.run_coroutine_threadsafe(read(), loop).result(SCRAPE_S_MAX)
        start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
        return [one_page(pages, label)]

    pages = Pages(app, REQUEST_S, may_wait=True, tls=tls)
    listening: Future[None] = Future()
    serving = asyncio.create_task(pages.run(host, port, listening))
    try:
        await asyncio.wrap_future(listening)
    except OSError as wrong:
        raise RuntimeError(f"cannot listen on {host}:{port} for /metrics: {wrong}") from wrong
    try:
        yield
    finally:
        pages.stop()
        await serving


def one_page(pages: Mapping[int, str], label: str) -> bytes:
    """`pages`: the worker's number → its page, in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Joined(joined(pages, label)))
    return generate_latest(registry)


def joined(pages: Mapping[int, str], label: str) -> list[Metric]:
    families: dict[str, Metric] = {}
    for number, page in sorted(pages.items()):
        for family in text_string_to_metric_families(page):
            one = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            one.samples.extend(
                sample._replace(labels={**sample.labels, label: str(number)})
                for sample in family.samples
            )
    return list(families.values())


class _Joined(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
