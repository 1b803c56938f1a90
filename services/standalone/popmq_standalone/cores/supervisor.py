"""The process that listens for clients and watches the workers. It has the nameserver, in which
the workers' proxies find the brokers of the others."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST

from popmq_broker.app import exit_on_error
from popmq_broker.config import BrokerConfig
from popmq_common.metrics.metrics_http import REQUEST_S, SCRAPE_S_MAX, Pages
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError
from popmq_common.process.sockets import connections
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_nameserver.core.route_table import RouteTable
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.front.http2.server import Port
from popmq_standalone.app import Standalone
from popmq_standalone.cores.balance import RULES, BalanceRules
from popmq_standalone.cores.figures import one_page
from popmq_standalone.cores.shards import Shard
from popmq_standalone.cores.worker import WorkerTask
from popmq_standalone.cores.workers import Workers

ANY_PORT_HOST: Final = "127.0.0.1"
"""The links of the workers: nobody else needs to reach them."""
SECRET_BYTES: Final = 32
STDOUT: Final = "-"
REGISTERED_S_MAX: Final = 30.0
"""From when all workers serve until their brokers are in the routes."""
LOOK_S: Final = 0.01


class Listeners:
    """The ports for clients; connections go to the workers. Until these serve clients are refused:
    one that is let in waits, and takes a server that starts for one that does not answer."""

    def __init__(self, config: ProxyConfig, log: logs.Log) -> None:
        """Raises `RuntimeError` when a port is taken."""
        self._log = log
        self._ports = [Port(config.host, config.port)]
        self.port = self.tls_port = self._ports[0].number
        if config.tls_port not in (0, self.port):
            self._ports.append(Port(config.host, config.tls_port))
            self.tls_port = self._ports[1].number

    def listen(self) -> None:
        """Raises `RuntimeError` when somebody else has begun to listen there."""
        for one in self._ports:
            one.listen()

    async def run(self, workers: Workers) -> None:
        await asyncio.gather(*(self._accept(one.socket, workers) for one in self._ports))

    async def _accept(self, one: socket.socket, workers: Workers) -> None:
        loop = asyncio.get_running_loop()
        async for accepted, _ in connections(lambda: loop.sock_accept(one), self._log):
            with accepted:
                await workers.hand(accepted)

    def close(self) -> None:
        for one in self._ports:
            one.close()


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
        told = _Told(broker_config, proxy_config, listeners, names.port, secret, log_level)
        workers = Workers(shards, told.task, log)
        await workers.start()
        stack.push_async_callback(workers.stop)
        await _registered(names.table, {shard.broker for shard in shards})
        await workers.spread_topics()
        listeners.listen()
        await stack.enter_async_context(_running(listeners.run(workers), log))
        await stack.enter_async_context(_running(workers.balance(rules), log))
        if metrics_port:
            await stack.enter_async_context(
                _figures(workers, broker_config, proxy_config.host, metrics_port)
            )
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


class _Told:
    """What a worker is told: the configuration, with what is its own."""

    def __init__(
        self,
        broker: BrokerConfig,
        proxy: ProxyConfig,
        listeners: Listeners,
        nameserver_port: int,
        secret: str,
        log_level: str,
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
            proxy,
            port=listeners.port,
            tls_port=listeners.tls_port,
            link_secret=secret,
            link_secret_file=None,
            nameservers=nameservers,
            metrics_port=0,
        )
        self._log_level = log_level

    def task(self, shard: Shard, control_fd: int, connections_fd: int) -> WorkerTask:
        broker = replace(
            self._broker,
            name=shard.broker,
            data_dir=shard.directory,
            drains=shard.drains or self._broker.drains,
        )
        proxy = replace(
            self._proxy,
            name=f"{self._proxy.name or 'standalone'}-{shard.number}",
            audit_log=audit_log(self._proxy.audit_log, shard.number),
        )
        return WorkerTask(broker, proxy, self._log_level, control_fd, connections_fd)


def audit_log(path: str, number: int) -> str:
    """Of the proxy of this shard: each writes a file of its own, and begins the next by itself."""
    if path in ("", STDOUT) or not number:
        return path
    named = Path(path)
    return str(named.with_stem(f"{named.stem}-{number}"))


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None], log: logs.Log) -> AsyncIterator[None]:
    """A server that does not listen must not live on."""
    task = asyncio.create_task(work)
    task.add_done_callback(partial(exit_on_error, log))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _figures(
    workers: Workers, config: BrokerConfig, host: str, port: int
) -> AsyncIterator[None]:
    """One page for all. Raises `RuntimeError` when the port is taken."""
    loop = asyncio.get_running_loop()

    def app(environ: dict[str, str], start_response: Callable[..., object]) -> list[bytes]:
        pages = asyncio.run_coroutine_threadsafe(workers.figures(), loop).result(SCRAPE_S_MAX)
        start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
        return [one_page(pages)]

    tls = listening_context(metrics_files(config, "BROKER"), logs.get("broker"), "metrics")
    pages = Pages(app, REQUEST_S, may_wait=True, tls=tls)
    listening: Future[None] = Future()
    serving = asyncio.create_task(pages.run(host, port, listening))
    try:
        await asyncio.wrap_future(listening)
    except OSError as wrong:
        raise RuntimeError(f"cannot listen on {host}:{port} for /metrics: {wrong}") from wrong
    try:
        yield
    finally:
        pages.stop()
        await serving
