"""Nameserver, broker and proxy in one process, on one port: the same code, joined by calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from popmq_broker import metrics as broker_metrics
from popmq_broker.app import engine, registered
from popmq_broker.config import BrokerConfig
from popmq_common.clock import Clock
from popmq_common.metrics_http import MetricsServer
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_table import RouteTable
from popmq_proxy.app import Proxy, proxy
from popmq_proxy.clients.brokers import LocalBrokers
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.config import ProxyConfig

NEVER_MS = 1 << 62  # the one broker of this process cannot be gone while the process lives


class LocalAnnouncer:
    """Registers with the route table of the same process."""

    def __init__(self, table: RouteTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def register(self, request: ns.RegisterRequest) -> bool:
        return self._table.register(request.broker, list(request.topics), self._clock.now_ms())

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool:
        return self._table.heartbeat(broker, self._clock.now_ms())

    async def unregister(self, broker: ns.BrokerInfo) -> None:
        self._table.unregister(broker)


@dataclass(frozen=True, slots=True)
class Standalone:
    proxy: Proxy
    metrics_port: int
    broker: BrokerConfig


@asynccontextmanager
async def standalone(
    broker_config: BrokerConfig, proxy_config: ProxyConfig, clock: Clock, *, metrics_port: int = 0
) -> AsyncIterator[Standalone]:
    """Serve until the context is left. Raises `DirectoryInUse`, `Corrupt`, `RuntimeError`."""
    table = RouteTable(NEVER_MS)
    async with engine(broker_config, clock) as broker:
        pages = MetricsServer(broker_metrics.registry(broker), proxy_config.host, metrics_port)
        announcer = LocalAnnouncer(table, clock)
        async with registered(broker, "in-process", [announcer], clock), pages:
            await broker.topics.announce()
            nameservers = LocalNameservers(table.lookup, table.brokers)
            brokers = LocalBrokers({broker.name: broker.handle})
            async with proxy(
                proxy_config, clock, nameservers=nameservers, brokers=brokers
            ) as front:
                yield Standalone(front, pages.port, broker_config)
