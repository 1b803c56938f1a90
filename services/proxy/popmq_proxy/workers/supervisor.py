"""The process that listens for clients, hands their connections to the workers, and watches
these."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError
from popmq_common.process.fatal import running
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import metrics_files
from popmq_common.workers.balance import RULES, BalanceRules
from popmq_common.workers.cores import CORES_MAX
from popmq_common.workers.figures import figures_page
from popmq_common.workers.seat import Seat
from popmq_common.workers.workers import Workers
from popmq_proxy.app import proxy
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.rpc.access.start_checks import check_values
from popmq_proxy.workers.listeners import Listeners

WORKER: Final = "popmq_proxy.workers.worker"
LABEL: Final = "worker"
STDOUT: Final = "-"


@asynccontextmanager
async def serving(config: ProxyConfig, clock: Clock) -> AsyncIterator[None]:
    """A proxy of as many processes as the configuration says; with one it is this process. Raises
    `ConfigError`, and `RuntimeError` for a port that is taken and a worker that cannot start."""
    if config.workers == 1:
        async with proxy(config, clock):
            yield
    else:
        async with by_workers(config):
            yield


@asynccontextmanager
async def by_workers(config: ProxyConfig, rules: BalanceRules = RULES) -> AsyncIterator[Listeners]:
    """Raises as `serving`."""
    check(config)
    log = logs.get("proxy")
    tls = listening_context(metrics_files(config, "PROXY"), log, "metrics")
    with closing(Listeners(config, log)) as listeners:
        name = config.name or socket.gethostname()
        seats = [Seat(number, f"{name}-{number}") for number in range(config.workers)]

        def own(seat: Seat) -> ProxyConfig:
            return worker_config(config, listeners, seat.name, seat.number)

        async with Workers(WORKER, seats, own, log, config.log_level) as workers:
            listeners.listen()
            async with (
                taking(listeners, workers, log, rules),
                figures_page(workers.figures, LABEL, config.host, config.metrics_port, tls),
            ):
                log.info("proxy.started", port=listeners.port, workers=config.workers)
                yield listeners
    log.info("proxy.stopped")


def check(config: ProxyConfig) -> None:
    """What can be told without reading a file. Raises `ConfigError`."""
    check_values(config, over_link=True)
    if not 1 <= config.workers <= CORES_MAX:
        raise ConfigError(f"POPMQ_PROXY_WORKERS must be a number from 1 to {CORES_MAX}")
    if config.workers > 1 and config.front is not Front.HTTP2:
        raise ConfigError("more than one process needs the front http2: grpcio listens by itself")


@asynccontextmanager
async def taking(
    listeners: Listeners, workers: Workers[Any], log: logs.Log, rules: BalanceRules
) -> AsyncIterator[None]:
    """Clients are handed to the workers; one that is too busy parts with some."""
    event = "listening.failed"
    async with (
        running(listeners.run(workers.hand), log, event),
        running(workers.balance(rules), log, event),
    ):
        yield


def worker_config(config: ProxyConfig, listeners: Listeners, name: str, number: int) -> ProxyConfig:
    """The configuration of all, with what is one worker's own."""
    return replace(
        config,
        name=name,
        port=listeners.port,
        tls_port=listeners.tls_port,
        metrics_port=0,
        audit_log=audit_log(config.audit_log, number),
    )


def audit_log(path: str, number: int) -> str:
    """Each worker writes a file of its own, and begins the next by itself."""
    if path in ("", STDOUT) or not number:
        return path
    named = Path(path)
    return str(named.with_stem(f"{named.stem}-{number}"))
