"""What Prometheus finds at `popmq standalone --metrics-port`."""

import asyncio
from pathlib import Path
from urllib.request import urlopen

from harness.processes import free_port

from popmq import Client
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone


def page(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


async def test_one_page_has_the_figures_of_broker_and_proxy(tmp_path: Path) -> None:
    broker = BrokerConfig(data_dir=tmp_path, disk_reserve_bytes=0)
    proxy = ProxyConfig(port=0, create_topics=True, log_level="error")
    async with standalone(broker, proxy, SystemClock(), metrics_port=free_port()) as served:
        async with Client(f"127.0.0.1:{served.proxy.port}") as client:
            await client.send("t", b"x")
        found = await asyncio.to_thread(page, served.metrics_port)
    names = [line.split()[2] for line in found.splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)), "each is told once"
    assert 'popmq_messages_in_total{topic="t"} 1.0' in found
    assert 'popmq_rpc_status_total{code="20000",method="SendMessage"} 1.0' in found
