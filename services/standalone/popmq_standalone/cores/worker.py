"""A worker: the process of one shard. Its proxy serves the clients that the supervisor hands over;
its broker serves that proxy by calls, and the proxies of the other workers over the link."""

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from popmq_broker import metrics as broker_metrics
from popmq_broker.app import BrokerServer, server
from popmq_broker.config import BrokerConfig
from popmq_common.errors import PopMQError
from popmq_common.process.clock import SystemClock
from popmq_common.workers.worker import Clients, Worker, run_worker
from popmq_proxy.app import Proxy, proxy
from popmq_proxy.clients.joined_brokers import OwnBroker
from popmq_proxy.clients.local_brokers import LocalBroker
from popmq_proxy.config import ProxyConfig


class ShardConfigs(NamedTuple):
    broker: BrokerConfig
    proxy: ProxyConfig


async def serve_shard(configs: ShardConfigs, worker: Worker) -> None:
    """Raises what keeps broker or proxy from starting."""
    clock = SystemClock()
    async with server(configs.broker, clock) as broker:
        own = OwnBroker(
            configs.broker.name, LocalBroker(broker.broker.handle, broker.broker.handle_sends)
        )
        async with proxy(configs.proxy, clock, own=own, arriving=worker.handed.next) as front:

            async def spread(_: Mapping[str, Any]) -> dict[str, int | str]:
                try:
                    return {"topics": await front.inner.spread_topics()}
                except PopMQError as failed:
                    return {"failed": str(failed)}

            clients = Clients(front.connection_count, front.move_one)
            await worker.serve(_figures(broker, front), clients, {"spread": spread})
        await worker.end()


def _figures(broker: BrokerServer, front: Proxy) -> CollectorRegistry:
    found = broker_metrics.registry(broker.broker, broker.link)
    found.register(front.inner.metrics)
    return found


if __name__ == "__main__":
    sys.exit(run_worker(serve_shard))
