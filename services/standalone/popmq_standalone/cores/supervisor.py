"""The process that listens for clients and watches the workers. It has the nameserver, in which
the workers' proxies find the brokers of the others."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from popmq_broker.config import BrokerConfig
from popmq_broker.shards.layout import Shard
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files
from popmq_common.workers.balance import RULES, BalanceRules
from popmq_common.workers.figures import figures_page
from popmq_common.workers.workers import END_S_MAX, Workers
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_nameserver.core.route_table import RouteTable
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.workers.listeners import Listeners
from popmq_proxy.workers.supervisor import taking, worker_config
from popmq_standalone.app import Standalone
from popmq_standalone.cores.worker import ShardConfigs

WORKER: Final = "popmq_standalone.cores.worker"
LABEL: Final = "shard"
ANY_PORT_HOST: Final = "127.0.0.1"
"""The links of the workers: nobody else needs to reach them."""
SECRET_BYTES: Final = 32
REGISTERED_S_MAX: Final = 30.0
"""From when all workers serve until their brokers are in the routes."""
LOOK_S: Final = 0.01


@asynccontextmanager
async def on_cores(
    shards: Sequence[Shard],
    broker_config: BrokerConfig,
    proxy_config: ProxyConfig,
    clock: Clock,
    *,
    metrics_port: int = 0,
    log_level: str = "info",
    rules: BalanceRules = RULES,
) -> AsyncIterator[Standalone]:
    """Serve until the context is left. Raises `ConfigError`, and `RuntimeError` for a port that is
    taken and a shard that cannot start."""
    if proxy_config.front is not Front.HTTP2:
        raise ConfigError("more than one shard needs the front http2: grpcio listens by itself")
    log = logs.get("standalone")
    secret = secrets.token_hex(SECRET_BYTES)
    table = NameserverConfig(host=ANY_PORT_HOST, port=0, link_secret=secret)
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(nameserver(table, clock))
        listeners = Listeners(proxy_config, log)
        stack.callback(listeners.close)
        told = _Told(broker_config, proxy_config, listeners, names.port, secret)
        workers = Workers(WORKER, shards, told.configs, log, log_level)
        await stack.enter_async_context(workers)
        await _registered(names.table, {shard.name for shard in shards})
        await _spread_topics(workers, log)
        listeners.listen()
        await stack.enter_async_context(taking(listeners, workers, log, rules))
        tls = listening_context(metrics_files(broker_config, "BROKER"), log, "metrics")
        page = figures_page(workers.figures, LABEL, proxy_config.host, metrics_port, tls)
        await stack.enter_async_context(page)
        yield Standalone(listeners, metrics_port)


async def _registered(table: RouteTable, brokers: set[str]) -> None:
    """All of them are in the routes: what a client makes is made at each. Raises `RuntimeError`."""
    try:
        async with asyncio.timeout(REGISTERED_S_MAX):
            while not brokers <= {info.name for info in table.brokers()}:  # noqa: ASYNC110 # a start, once
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        missing = ", ".join(sorted(brokers - {info.name for info in table.brokers()}))
        reason = f"{missing} did not register within {REGISTERED_S_MAX:g} s"
        raise RuntimeError(reason) from None


async def _spread_topics(workers: Workers[Shard], log: logs.Log) -> None:
    """Existing topics are made at shards that lack them."""
    worker = next(worker for shard, worker in workers.serving() if not shard.drains)
    found = await worker.ask("spread", END_S_MAX)
    if "failed" in found:
        hint = "popmq topic spread --all"
        log.error("topics.not_spread", reason=found["failed"], hint=hint)


class _Told:
    """What a worker is told: the configuration, with what is its own."""

    def __init__(
        self,
        broker: BrokerConfig,
        proxy: ProxyConfig,
        listeners: Listeners,
        nameserver_port: int,
        secret: str,
    ) -> None:
        nameservers = (f"{ANY_PORT_HOST}:{nameserver_port}",)
        self._broker = replace(
            broker,
            host=ANY_PORT_HOST,
            port=0,
            advertise="",
            link_secret=secret,
            link_secret_file=None,
            nameservers=nameservers,
            metrics_port=0,
            health_port=0,
        )
        self._proxy = replace(
            proxy, link_secret=secret, link_secret_file=None, nameservers=nameservers
        )
        self._listeners = listeners

    def configs(self, shard: Shard) -> ShardConfigs:
        broker = replace(
            self._broker,
            name=shard.name,
            data_dir=shard.directory,
            drains=shard.drains or self._broker.drains,
        )
        name = f"{self._proxy.name or 'standalone'}-{shard.number}"
        proxy = worker_config(self._proxy, self._listeners, name, shard.number)
        return ShardConfigs(broker, proxy)
