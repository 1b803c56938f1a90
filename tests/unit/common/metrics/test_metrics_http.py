"""/metrics reads a service's state where it changes, not beside it."""

import asyncio
import gzip
import socket
import threading
import urllib.request
from collections.abc import Iterable
from contextlib import suppress

import pytest
from harness.processes import free_port
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from popmq_common.metrics.metrics_http import MetricsServer


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


async def test_clients_that_say_nothing_take_no_thread_and_no_place() -> None:
    """Hundreds of them, and one that sends a byte now and then; a scrape is answered meanwhile."""
    registry, port = CollectorRegistry(), free_port()
    registry.register(Asked())
    async with MetricsServer(registry, "127.0.0.1", port, request_s=0.3):
        before = set(threading.enumerate())
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        trickling = asyncio.create_task(_trickle(*opened[0]))
        assert set(threading.enumerate()) <= before  # one of another test may end meanwhile
        async with asyncio.timeout(20):
            page = await asyncio.to_thread(_get_in_time, port)
            assert "asked" in page
            ends = await asyncio.gather(*(reader.read() for reader, _ in opened[1:]))
            await trickling
        assert set(ends) == {b""}, "each was sent away"
        for _, writer in opened:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until it is sent away."""
    try:
        while not reader.at_eof():
            writer.write(b"G")
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.read()
    except OSError:
        return


def _get_in_time(port: int) -> str:
    """Those that were there before are sent away first."""
    while True:
        with suppress(OSError):
            return _get(port)


async def test_who_asks_for_much_or_wrongly_gets_nothing() -> None:
    registry, port = CollectorRegistry(), free_port()
    async with MetricsServer(registry, "127.0.0.1", port):
        for wrong in (b"x" * 100_000, b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(wrong)
            with suppress(OSError):
                assert not (await reader.read()).startswith(b"HTTP/1.0 200")
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        assert "popmq_build_info" in await asyncio.to_thread(_get, port)


async def test_a_page_is_packed_for_who_asks_so() -> None:
    registry, port = CollectorRegistry(), free_port()
    async with MetricsServer(registry, "127.0.0.1", port):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"}
        )
        page = await asyncio.to_thread(_read, request)
    assert b"popmq_build_info" in gzip.decompress(page)


def _read(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=5) as page:
        data: bytes = page.read()
    return data
