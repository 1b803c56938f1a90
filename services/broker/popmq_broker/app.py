"""Build a broker from its configuration, in order; the only file that knows all parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from popmq_broker import metrics
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.register import GrpcAnnouncer
from popmq_broker.opening import EXIT_DISK, open_engine
from popmq_broker.registering import registered
from popmq_broker.rpc.health import health
from popmq_broker.rpc.link import LinkServer
from popmq_common.link import link_secret
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.fatal import running
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import link_files, metrics_files, nameserver_files

__all__ = ["EXIT_DISK", "BrokerServer", "engine", "open_engine", "registered", "server"]


@dataclass(frozen=True, slots=True)
class BrokerServer:
    """A broker that serves its link."""

    broker: Broker
    port: int
    link: LinkServer


@asynccontextmanager
async def server(config: BrokerConfig, clock: Clock) -> AsyncIterator[BrokerServer]:
    """The broker with its link, metrics and registrations.

    Raises `ConfigError`, `DirectoryInUse`, `DirectoryNotWritable`, `Corrupt`.
    """
    secret = link_secret.read(config.link_secret, config.link_secret_file)
    log = logs.get("broker").bind(broker=config.name)
    shown = link_files(config, "BROKER", config.link_tls_client_ca)
    link_tls = listening_context(shown, log, "link")
    metrics_tls = listening_context(metrics_files(config, "BROKER"), log, "metrics")
    asking = nameserver_files(config, "BROKER")
    async with engine(config, clock) as broker:
        link_server = LinkServer(
            broker.handle,
            broker.handle_sends,
            name=config.name,
            secret=secret,
            log=log,
            tls=link_tls,
        )
        await link_server.start(config.host, config.port, unix_socket=config.link_socket)
        address = config.advertise or f"{config.host}:{link_server.port}"
        remembered_as = broker.peers.remembered_as
        announcers = [
            GrpcAnnouncer(nameserver, secret, remembered_as, asking)
            for nameserver in config.nameservers
        ]
        pages = MetricsServer(
            metrics.registry(broker, link_server),
            config.host,
            config.metrics_port,
            tls=metrics_tls,
        )
        try:
            async with (
                registered(broker, address, announcers, clock.now_ms()),
                pages,
                health(config.host, config.health_port, shown, log),
            ):
                modes = {"flush": config.flush.value, "pop_buffer": config.pop_buffer.value}
                log.info("broker.started", link=address, **modes)
                yield BrokerServer(broker, link_server.port, link_server)
        finally:
            await link_server.stop()
            log.info("broker.stopped")


@asynccontextmanager
async def engine(config: BrokerConfig, clock: Clock) -> AsyncIterator[Broker]:
    """The broker without its network: open, recover, run; closed cleanly at the end.

    An error in a task beside the calls ends the process: half a broker must not answer. Raises
    `DirectoryInUse`, `Corrupt`.
    """
    opened = await open_engine(config, clock)
    try:
        async with running(opened.run(), opened.state.runtime.log, "broker.failed"):
            yield opened
    finally:
        await opened.close()
