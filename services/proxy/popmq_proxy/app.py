"""Build a proxy from its configuration; the only file that knows all parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from popmq_common import logs
from popmq_common.clock import Clock
from popmq_common.metrics_http import MetricsServer
from popmq_proxy.clients.brokers import Brokers, LinkBrokers
from popmq_proxy.clients.nameservers import GrpcNameservers, Nameservers, RouteCache
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front import tls
from popmq_proxy.front.grpcio import GrpcioFront
from popmq_proxy.metrics import Metrics
from popmq_proxy.rpc.context import Upstream
from popmq_proxy.rpc.methods import methods

DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that serves."""

    port: int
    tls_port: int
    metrics_port: int


@asynccontextmanager
async def proxy(
    config: ProxyConfig,
    clock: Clock,
    *,
    nameservers: Nameservers | None = None,
    brokers: Brokers | None = None,
) -> AsyncIterator[Proxy]:
    """Serve until the context is left; then open polls end and calls finish.

    Without `nameservers` and `brokers` those of the configuration are used. Raises `ConfigError`,
    `RuntimeError` when a port is taken.
    """
    log = logs.get("proxy")
    routes = RouteCache(nameservers or GrpcNameservers(config.nameservers))
    links = brokers or LinkBrokers(routes.address, config.link_secret)
    upstream = Upstream(config=config, routes=routes, brokers=links, clock=clock, log=log)
    metrics = Metrics(upstream.sessions)
    front = GrpcioFront(config, methods(upstream), metrics)
    port, tls_port = front.bind(tls.credentials(config))
    upstream.port = port
    await front.start()
    try:
        async with MetricsServer(metrics.registry, config.host, config.metrics_port) as pages:
            log.info("proxy.started", port=port, tls_port=tls_port, metrics_port=pages.port)
            yield Proxy(port, tls_port, pages.port)
    finally:
        upstream.sessions.end_all()
        await front.stop(DRAIN_S)
        await links.close()
        await routes.close()
        log.info("proxy.stopped")
