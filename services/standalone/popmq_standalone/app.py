"""Nameserver, broker and proxy in one process, on one port: the same code, joined by calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry

from popmq_broker import metrics as broker_metrics
from popmq_broker.app import engine, registered
from popmq_broker.config import BrokerConfig
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_table import RouteTable
from popmq_proxy.app import proxy
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers
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

    async def update(self, request: ns.UpdateRequest) -> bool:
        return self._table.update(request, self._clock.now_ms())

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool:
        return self._table.heartbeat(broker, self._clock.now_ms())

    async def unregister(self, broker: ns.BrokerInfo) -> None:
        self._table.unregister(broker)


class Listening(Protocol):
    """Where clients come in."""

    @property
    def port(self) -> int: ...
    @property
    def tls_port(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Standalone:
    proxy: Listening
    metrics_port: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What a proxy of the same process talks to."""

    nameservers: LocalNameservers
    brokers: LocalBrokers
    figures: CollectorRegistry
    """The broker's."""


@asynccontextmanager
async def broker_beside(
    config: BrokerConfig, proxy_config: ProxyConfig, clock: Clock
) -> AsyncIterator[Beside]:
    """A nameserver and a broker in the process of the proxy. Raises `DirectoryInUse`, `Corrupt`."""
    table = RouteTable(NEVER_MS)
    async with engine(config, clock) as broker:
        announcer = LocalAnnouncer(table, clock)
        async with registered(broker, "in-process", [announcer], clock.now_ms()):
            await broker.topics.announce()
            nameservers = LocalNameservers(table.lookup, table.brokers)
            brokers = {broker.name: LocalBroker(broker.handle, broker.handle_sends)}
            links = LocalBrokers(brokers, proxy_config.gather_ms_max)
            yield Beside(nameservers, links, broker_metrics.registry(broker))


@asynccontextmanager
async def standalone(
    broker_config: BrokerConfig, proxy_config: ProxyConfig, clock: Clock, *, metrics_port: int = 0
) -> AsyncIterator[Standalone]:
    """Serve until the context is left. Raises `DirectoryInUse`, `Corrupt`, `RuntimeError`.

    `metrics_port`: of a page with the figures of both; 0: there is none.
    """
    log = logs.get("broker")
    metrics_tls = listening_context(metrics_files(broker_config, "BROKER"), log, "metrics")
    async with (
        broker_beside(broker_config, proxy_config, clock) as beside,
        proxy(proxy_config, clock, nameservers=beside.nameservers, brokers=beside.brokers) as front,
    ):
        beside.figures.register(front.inner.metrics)
        page = MetricsServer(beside.figures, proxy_config.host, metrics_port, tls=metrics_tls)
        async with page:
            yield Standalone(front, page.port)
