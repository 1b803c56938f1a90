"""Build one replica of a broker from its configuration: `app.server` for a broker with replicas.

The link is open from the start: followers and a new primary need it before there is a broker.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry

from popmq_broker import metrics, replica_metrics
from popmq_broker.clients import replica_link
from popmq_broker.clients.register.register import Register
from popmq_broker.config import BrokerConfig, Flush
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.register import GrpcAnnouncer
from popmq_broker.engine.replication.directory import ReplicaDirectory
from popmq_broker.engine.replication.replica import Replica
from popmq_broker.engine.replication.replica_parts import ReplicaParts
from popmq_broker.group_register import register_of
from popmq_broker.opening import (
    EXIT_DISK,
    exit_on_disk,
    load_broker,
    new_state,
    open_directory,
    store_config,
)
from popmq_broker.registering import registered
from popmq_broker.replica_tls import replica_files
from popmq_broker.rpc.health import health
from popmq_broker.rpc.link import LinkServer
from popmq_broker.store.files.files import OsFiles, writing_to
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import StorageFault
from popmq_common.link import link_secret
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError
from popmq_common.process.fatal import EXIT_BUG
from popmq_common.tls.service_ends import connecting_context, listening_context
from popmq_common.tls.settings import link_files, metrics_files, nameserver_files

TURN_AWAY_S = 1.0
"""How long calls may take to finish when the replica is primary no more."""


@dataclass(frozen=True, slots=True)
class ReplicaServer:
    """A replica that serves its link."""

    replica: Replica
    port: int


@asynccontextmanager
async def server(config: BrokerConfig, clock: Clock) -> AsyncIterator[ReplicaServer]:
    """The replica with its link, metrics and, while it is primary, registrations.

    Raises `ConfigError`, `DirectoryInUse`, `DirectoryNotWritable`, `Corrupt`.
    """
    check(config)
    log = logs.get("broker").bind(broker=config.name)
    metrics_tls = listening_context(metrics_files(config, "BROKER"), log, "metrics")
    shown = link_files(config, "BROKER", config.link_tls_client_ca)
    register = register_of(config)
    built: list[Replica] = []
    link_server = LinkServer(
        lambda call: built[0].handle(call),
        lambda calls, answer: built[0].handle_sends(calls, answer),
        name=config.name,
        secret=link_secret.read(config.link_secret, config.link_secret_file),
        log=log,
        tls=listening_context(shown, log, "link"),
    )
    registry = replica_metrics.registry(config.name, built)
    pages = MetricsServer(registry, config.host, config.metrics_port, tls=metrics_tls)
    directory = _directory(config, log)
    await link_server.start(config.host, config.port, unix_socket=config.link_socket)
    address = config.advertise or f"{config.host}:{link_server.port}"
    serving = partial(_serving, config, address, link_server, registry)
    replica = Replica(_parts(config, clock, log, address, register, directory, serving))
    built.append(replica)
    living = asyncio.create_task(replica.run(), name="replica")
    living.add_done_callback(partial(_exit_on_error, log))
    try:
        async with pages, health(config.host, config.health_port, shown, log):
            log.info("replica.started", link=address, replica=config.replica)
            yield ReplicaServer(replica, link_server.port)
    finally:
        replica.stop()
        await asyncio.gather(living, return_exceptions=True)
        await link_server.stop()
        await register.close()
        log.info("broker.stopped")


def _directory(config: BrokerConfig, log: logs.Log) -> ReplicaDirectory:
    files, folder = OsFiles(), config.data_dir
    with writing_to(folder):
        files.make_folder(folder)
        return ReplicaDirectory(files, store_config(config), log, secrets.token_hex(8))


@asynccontextmanager
async def _serving(
    config: BrokerConfig,
    address: str,
    link_server: LinkServer,
    registry: CollectorRegistry,
    broker: Broker,
    began_ms: int,
) -> AsyncIterator[None]:
    """Clients find the broker here, and its figures are on the page."""
    secret = link_secret.read(config.link_secret, config.link_secret_file)
    asking, remembered_as = nameserver_files(config, "BROKER"), broker.peers.remembered_as
    announcers = [
        GrpcAnnouncer(nameserver, secret, remembered_as, asking)
        for nameserver in config.nameservers
    ]
    figures = metrics.BrokerCollector(broker, link_server)
    registry.register(figures)
    try:
        async with registered(broker, address, announcers, began_ms):
            yield
    finally:
        registry.unregister(figures)
        await link_server.turn_away(TURN_AWAY_S)


def _parts(
    config: BrokerConfig,
    clock: Clock,
    log: logs.Log,
    address: str,
    register: Register,
    directory: ReplicaDirectory,
    serving: Callable[[Broker, int], AbstractAsyncContextManager[None]],
) -> ReplicaParts:
    secret = link_secret.read(config.link_secret, config.link_secret_file)
    replica_tls = connecting_context(replica_files(config), log)
    fatal = partial(exit_on_disk, config, log)
    return ReplicaParts(
        name=config.name,
        replica=config.replica,
        address=address,
        min_in_sync=config.min_in_sync,
        lag_ms=config.replica_lag_ms,
        lease_s=config.primary_lease_ms / 1000,
        catch_up_bytes_per_s=config.catch_up_bytes_per_s,
        register=register,
        directory=directory,
        files=OsFiles(),
        store_config=store_config(config),
        log=log,
        wall_ms=clock.now_ms,
        steady_ms=lambda: time.monotonic_ns() // 1_000_000,
        open_store=lambda: open_directory(config, log, fatal, ReplicaStore),
        new_state=lambda store: new_state(store, config, clock, log),
        load=lambda state, warm, epoch: load_broker(state, warm=warm, epoch=epoch),
        serving=serving,
        connect=lambda to: replica_link.connect(config.name, to, secret, replica_tls),
    )


def _exit_on_error(log: logs.Log, task: "asyncio.Task[None]") -> None:
    """A replica that cannot go on must not look alive. A disk's fault has an exit code of its
    own."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("replica.failed", reason=str(error), exc_info=error)
        os._exit(EXIT_DISK if isinstance(error, StorageFault) else EXIT_BUG)


def check(config: BrokerConfig) -> None:
    """Raises `ConfigError`."""
    if not config.register:
        raise ConfigError("a replica needs POPMQ_BROKER_REGISTER, the same for all of the group")
    if config.flush is not Flush.SYNC:
        raise ConfigError("a replica needs flush=sync: what it acknowledges must be on its disk")
    if config.min_in_sync < 1:
        raise ConfigError("POPMQ_BROKER_MIN_IN_SYNC must be 1 or more")
