"""Build a proxy from its configuration; the only file that knows all parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext
from typing import TypeAlias

from popmq_admin.v1.admin_pb2 import SpreadTopicsRequest
from popmq_common.link import link_secret
from popmq_common.metrics.metric import by_name
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.sockets import Arriving
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files, nameserver_files
from popmq_proxy import metric_table as m
from popmq_proxy import tls
from popmq_proxy.clients.brokers import Brokers, LinkBrokers
from popmq_proxy.clients.joined_brokers import JoinedBrokers, OwnBroker
from popmq_proxy.clients.nameservers import GrpcNameservers, Nameservers
from popmq_proxy.clients.route_cache import RouteCache
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.core.routing.gathering import Gathering
from popmq_proxy.front import tls as front_tls
from popmq_proxy.front.client_budgets import ClientBudgets
from popmq_proxy.front.grpcio import GrpcioFront
from popmq_proxy.front.http2.budgets.limits import Http2Limits
from popmq_proxy.front.http2.server import Http2Server
from popmq_proxy.front.request_handler import RequestHandler
from popmq_proxy.front.rpcs import Rpc, rpcs
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.access import start_checks
from popmq_proxy.rpc.admin.health import HealthHandler
from popmq_proxy.rpc.methods import Methods, methods
from popmq_proxy.rpc.shared.context import CallContext, Upstream

DRAIN_S = 5.0
Ports: TypeAlias = tuple[int, int, Callable[[], int], Callable[[float], str]]
"""Port, TLS port, and what counts connections."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that serves."""

    port: int
    tls_port: int
    metrics_port: int
    inner: "Handlers"
    connection_count: Callable[[], int]
    """Of clients, now."""
    move_one: Callable[[float], str]
    """Part with a connection that has this share of the work, or less: its client connects again.
    The client's address; empty: there is none to part with."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """A proxy without its front."""

    upstream: Upstream
    methods: Methods
    rpcs: list[Rpc]
    metrics: ProxyMetrics
    metrics_port: int

    async def spread_topics(self) -> int:
        """Existing topics are made at brokers that lack them. How many there were."""
        nobody = CallContext(metadata={}, peer="", deadline_s=None)
        spread = await self.methods.topics.spread(nobody, SpreadTopicsRequest())
        return len(spread.topics)

    def drain(self) -> None:
        """Not healthy any more, and waiting polls and streams end."""
        self.methods.health.stop()
        self.upstream.stopping.set()
        self.upstream.sessions.end_all()


@asynccontextmanager
async def handlers(
    config: ProxyConfig,
    clock: Clock,
    *,
    nameservers: Nameservers | None = None,
    brokers: Brokers | None = None,
    own: OwnBroker | None = None,
) -> AsyncIterator[Handlers]:
    """Everything behind the front, until the context is left.

    Without `nameservers` and `brokers` those of the configuration are used; `own` is one of them,
    which is in this process.
    """
    log = logs.get("proxy")
    metrics_tls = listening_context(metrics_files(config, "PROXY"), log, "metrics")
    routes = RouteCache(
        nameservers or GrpcNameservers(config.nameservers, nameserver_files(config, "PROXY"))
    )
    gathering = Gathering(config.gather_ms_max)
    linked = None if brokers is not None else _link_brokers(config, routes, gathering, log)
    links = brokers or linked
    if linked is not None and own is not None:
        links = JoinedBrokers(own, linked, config.gather_ms_max)
    assert links is not None
    upstream = Upstream(config=config, routes=routes, brokers=links, clock=clock, log=log)
    upstream.gathering = gathering
    upstream.own_broker = own.name if own is not None else ""
    metrics = ProxyMetrics(upstream.sessions)
    _show(metrics, routes, linked)
    init_user = start_checks.check(config, log, over_link=brokers is None)
    found = methods(upstream, metrics)
    metrics.show(m.ACCESS_VERSION, lambda: {(): found.access.version.version})
    beside = [
        asyncio.create_task(found.heartbeats.run(), name="heartbeats"),
        asyncio.create_task(found.checks.run(), name="transaction checks"),
        asyncio.create_task(found.told.cluster.run(), name="presence"),
        asyncio.create_task(found.peers.run(), name="peers"),
        asyncio.create_task(upstream.starts.run(), name="starts of groups"),
        asyncio.create_task(upstream.watches.run(), name="watches"),
        asyncio.create_task(routes.follow(), name="routes"),
    ]
    if config.authentication:
        beside.append(asyncio.create_task(found.access.run(init_user), name="access"))
    for task in beside:
        task.add_done_callback(partial(_unhealthy_on_error, found.health, log))
    try:
        async with MetricsServer(
            metrics.registry, config.host, config.metrics_port, tls=metrics_tls
        ) as pages:
            yield Handlers(upstream, found, rpcs(found, metrics), metrics, pages.port)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await upstream.watches.close()
        await links.close()
        await routes.close()
        found.audit.close()


def _link_brokers(
    config: ProxyConfig, routes: RouteCache, gathering: Gathering, log: logs.Log
) -> LinkBrokers:
    found = LinkBrokers(
        routes.address,
        link_secret.read(config.link_secret, config.link_secret_file),
        tls.broker_context(config, log),
        gathering=gathering,
    )
    routes.moved = found.moved
    return found


def _show(metrics: ProxyMetrics, routes: RouteCache, linked: LinkBrokers | None) -> None:
    """What these have to tell. Brokers of the same process have no connection that could break."""
    metrics.show(m.ROUTES, lambda: {(): routes.count})
    metrics.show(m.NAMESERVERS_LOST, lambda: {(): routes.is_lost})
    if linked is not None:
        metrics.show(m.LINK_UP, lambda: by_name(linked.up(routes.broker_names)))
        metrics.show(m.LINK_SILENT, lambda: by_name(linked.silent()))
        metrics.show(m.LINK_CALLS, lambda: by_name(linked.calls()))


def _unhealthy_on_error(health: HealthHandler, log: logs.Log, task: "asyncio.Task[None]") -> None:
    """A proxy that renews nothing makes duplicates: nobody should be sent to it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("proxy.failed", task=task.get_name(), exc_info=error)
        health.stop()


@asynccontextmanager
async def proxy(
    config: ProxyConfig,
    clock: Clock,
    *,
    nameservers: Nameservers | None = None,
    brokers: Brokers | None = None,
    own: OwnBroker | None = None,
    arriving: Arriving | None = None,
) -> AsyncIterator[Proxy]:
    """Serve in this process until the context is left; then open polls end and calls finish.

    `arriving`: where connections come from, if another process listens on the ports of the
    configuration; only the front http2 takes them. The rest as in `handlers`.

    Raises `ConfigError`, `RuntimeError` when a port is taken.
    """
    log = logs.get("proxy")
    async with handlers(config, clock, nameservers=nameservers, brokers=brokers, own=own) as inner:
        front = (
            _grpcio(config, inner)
            if config.front is Front.GRPCIO
            else _http2(config, inner, arriving)
        )
        async with front as (port, tls_port, connection_count, move_one):
            log.info("proxy.started", port=port, tls_port=tls_port, metrics_port=inner.metrics_port)
            yield Proxy(port, tls_port, inner.metrics_port, inner, connection_count, move_one)
    log.info("proxy.stopped")


@asynccontextmanager
async def _grpcio(config: ProxyConfig, inner: Handlers) -> AsyncIterator[Ports]:
    """Without a TLS port, that is 0. The library tells nobody of its connections."""
    front = GrpcioFront(config, inner.rpcs)
    port, tls_port = front.bind(front_tls.credentials(config, inner.upstream.log))
    inner.upstream.port = port
    await front.start()
    try:
        yield port, tls_port, lambda: 0, lambda _: ""
    finally:
        inner.drain()
        await front.stop(DRAIN_S)


@asynccontextmanager
async def _http2(
    config: ProxyConfig, inner: Handlers, arriving: Arriving | None
) -> AsyncIterator[Ports]:
    """The port for TLS is the same unless the configuration names one."""
    app = application(config, inner)
    front = http2_server(config, inner, app, front_tls.context(config, inner.upstream.log))
    inner.metrics.show(m.CONNECTIONS, lambda: {(): front.connection_count})
    inner.metrics.show(m.ARRIVING, lambda: {(): front.arriving_count})
    inner.metrics.show(m.UNREAD_BYTES, lambda: {(): app.budgets.answer_buffer.taken})

    def move_one(share: float) -> str:
        peer = front.move_one(share)
        if peer is None:
            return ""
        inner.upstream.sessions.end_streams_from(f"{peer[0]}:{peer[1]}")
        return peer[0]

    try:
        if arriving is not None:
            front.take_from(arriving)
            port = config.port
        else:
            port = front.bind(config.host, config.port)
        inner.upstream.port = tls_port = port
        if config.tls_port not in (0, port):
            tls_port = config.tls_port if arriving else front.bind(config.host, config.tls_port)
        front.start()
        yield port, tls_port, lambda: front.connection_count, move_one
    finally:
        inner.drain()
        await front.stop(DRAIN_S)


def http2_server(
    config: ProxyConfig, inner: Handlers, app: RequestHandler, context: SSLContext | None = None
) -> Http2Server:
    """Not bound to a port yet; without `context` it does without TLS."""
    return Http2Server(
        app,
        limits(config),
        app.budgets,
        inner.upstream.log,
        connections_max=config.connections_max,
        tls=context,
        tls_only=config.tls_only,
    )


def limits(config: ProxyConfig) -> Http2Limits:
    return Http2Limits(
        streams_first=min(config.streams_first, config.streams_max),
        streams_max=config.streams_max,
        header_bytes_max=config.header_bytes_max,
        idle_frames_max=config.idle_frames_max,
        address_idle_frames_max=config.address_idle_frames_max,
        arriving_max=config.arriving_max,
        arrival_s=config.arrival_ms_max / 1000,
        stall_s=config.stall_ms_max / 1000,
    )


def application(config: ProxyConfig, inner: Handlers) -> RequestHandler:
    """What the HTTP/2 front serves."""
    budgets = ClientBudgets(
        calls_max=config.rpcs_max,
        received_bytes_max=config.received_bytes_max,
        unread_bytes_max=config.unread_bytes_max,
    )
    app = RequestHandler(
        inner.rpcs, inner.upstream.log, budgets, request_bytes_max=config.request_bytes_max
    )
    inner.metrics.show(m.RECEIVED_BYTES, lambda: {(): budgets.request_buffer.taken})
    return app
