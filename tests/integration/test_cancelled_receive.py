"""A receive that is cancelled after its client went on to another proxy."""

import asyncio
from pathlib import Path

import pytest

from popmq import Client
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import broker_beside

IN_VAIN_S = 60.0


async def test_it_is_ended_at_the_proxy_where_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq.consumer.receiving.END_S", IN_VAIN_S)
    broker = BrokerConfig(data_dir=tmp_path, disk_reserve_bytes=0, create_groups=True)
    config, clock = ProxyConfig(port=0, create_topics=True, log_level="error"), SystemClock()
    async with (
        broker_beside(broker, config, clock) as beside,
        proxy(config, clock, nameservers=beside.nameservers, brokers=beside.brokers) as one,
        proxy(config, clock, nameservers=beside.nameservers, brokers=beside.brokers) as other,
        Client(f"127.0.0.1:{one.port};127.0.0.1:{other.port}") as client,
    ):
        await client.receive("t", "g", wait_s=0)
        receiving = asyncio.create_task(client.receive("t", "g", wait_s=50))
        await asyncio.sleep(0.5)  # it has come to the proxy
        client.connection.go_elsewhere()
        began_s = asyncio.get_running_loop().time()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert asyncio.get_running_loop().time() - began_s < 10
