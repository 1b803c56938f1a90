"""The process that starts the shards and watches them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from popmq_broker.app import BrokerServer, server
from popmq_broker.config import BrokerConfig
from popmq_broker.replicated import ReplicaServer
from popmq_broker.replicated import check as check_replica
from popmq_broker.replicated import server as replica_server
from popmq_broker.rpc.health import health
from popmq_broker.shards.layout import Shard, found_shards, plan
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError, check_port
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import link_files, metrics_files
from popmq_common.workers.cores import CORES_MAX
from popmq_common.workers.figures import figures_page
from popmq_common.workers.workers import Workers

WORKER: Final = "popmq_broker.shards.worker"
LABEL: Final = "shard"


@asynccontextmanager
async def serving(
    config: BrokerConfig, clock: Clock
) -> AsyncIterator[BrokerServer | ReplicaServer | Workers[Shard]]:
    """What the configuration says: a broker, one replica of it, or several brokers that are its
    shards. Raises as `server`, and `RuntimeError` for a shard that cannot start."""
    check(config)
    shards = plan(config.data_dir, config.name, config.shards, found_shards(config.data_dir))
    _check_found(config, shards)
    if len(shards) > 1:
        async with by_shards(config, shards) as workers:
            yield workers
    elif config.replica:
        async with replica_server(config, clock) as replica:
            yield replica
    else:
        async with server(config, clock) as broker:
            yield broker


@asynccontextmanager
async def by_shards(config: BrokerConfig, shards: list[Shard]) -> AsyncIterator[Workers[Shard]]:
    """Raises `ConfigError`, and `RuntimeError` for a shard that cannot start."""
    log = logs.get("broker").bind(broker=config.name)
    shown = link_files(config, "BROKER", config.link_tls_client_ca)
    tls = listening_context(metrics_files(config, "BROKER"), log, "metrics")

    def own(shard: Shard) -> BrokerConfig:
        return shard_config(config, shard)

    async with (
        Workers(WORKER, shards, own, log, config.log_level) as workers,
        figures_page(workers.figures, LABEL, config.host, config.metrics_port, tls),
        health(config.host, config.health_port, shown, log, workers.all_serve),
    ):
        log.info("broker.started", shards=[shard.name for shard in shards])
        yield workers
    log.info("broker.stopped")


def check(config: BrokerConfig) -> None:
    """What can be told without looking into its directory. Raises `ConfigError`."""
    if not 1 <= config.shards <= CORES_MAX:
        raise ConfigError(f"POPMQ_BROKER_SHARDS must be a number from 1 to {CORES_MAX}")
    shards = plan(config.data_dir, config.name, config.shards, [])
    _check_found(config, shards)
    for shard in shards:
        shard_config(config, shard)
    if config.replica:
        check_replica(config)


def _check_found(config: BrokerConfig, shards: list[Shard]) -> None:
    """Raises `ConfigError`."""
    if config.replica and len(shards) > 1:
        directories = ", ".join(str(shard.directory) for shard in shards)
        raise ConfigError(
            f"a replica has no shards: run a broker with replicas for each of {directories}"
        )


def shard_config(config: BrokerConfig, shard: Shard) -> BrokerConfig:
    """The configuration of all, with what is one shard's own. Raises `ConfigError`."""
    return replace(
        config,
        name=shard.name,
        data_dir=shard.directory,
        drains=shard.drains or config.drains,
        port=_port(config.port, shard.number) if config.port else 0,
        advertise=_address(config.advertise, shard.number),
        health_port=0,
        metrics_port=0,
    )


def _address(advertise: str, number: int) -> str:
    host, colon, port = advertise.rpartition(":")
    if not colon or not port.isdecimal():
        return advertise
    return f"{host}:{_port(int(port), number)}"


def _port(first: int, number: int) -> int:
    try:
        check_port(first + number)
    except ValueError as wrong:
        raise ConfigError(f"shard {number} has no port: {first} + {number}: {wrong}") from None
    return first + number
