"""/metrics reads a service's state where it changes, not beside it."""

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Iterable

import pytest
from harness.processes import free_port
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from popmq_common.metrics_http import MetricsServer


class Asked(Collector):
    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def collect(self) -> Iterable[Metric]:
        self.threads.append(threading.current_thread())
        yield GaugeMetricFamily("asked", "How often", len(self.threads))


async def test_a_scrape_reads_on_the_event_loop() -> None:
    registry, asked, port = CollectorRegistry(), Asked(), free_port()
    registry.register(asked)
    async with MetricsServer(registry, "127.0.0.1", port):
        page = await asyncio.to_thread(_get, port)
    assert "asked 1.0" in page
    assert "process_resident_memory_bytes" in page
    assert 'popmq_build_info{version="' in page
    assert asked.threads == [threading.current_thread()]


async def test_a_port_that_is_taken_is_told_by_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{port} for /metrics"):
            await MetricsServer(CollectorRegistry(), "127.0.0.1", port).__aenter__()


def _get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        text: str = page.read().decode()
    return text
