"""popmq standalone: run all services in one process."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from popmq_broker.config import BrokerConfig, Flush, PopBuffer
from popmq_broker.shards.layout import found_shards, plan
from popmq_cli.servers.console_beside import beside
from popmq_cli.servers.console_options import INSTALL, console_port_option, is_installed
from popmq_cli.servers.cores_type import CORES, N_OR_AUTO
from popmq_cli.servers.front_option import FRONT
from popmq_cli.servers.listening_options import HOST, LOG_LEVEL
from popmq_cli.servers.serving import configured, run
from popmq_cli.shell.commands import Command
from popmq_cli.shell.output import document, fail
from popmq_cli.shell.parameters import PORT
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import Front, ProxyConfig
from popmq_standalone.app import Standalone, standalone
from popmq_standalone.cores.supervisor import on_cores

OWN_DEFAULT: Final = "popmq standalone"
"""What sets what nobody said, and a cluster has otherwise."""


def standalone_configs(
    *,
    host: str,
    port: int,
    tls_port: int,
    data_dir: Path,
    create_topics: bool,
    flush: str,
    front: str | None = Front.HTTP2.value,
    given: frozenset[str] = frozenset(),
) -> tuple[BrokerConfig, ProxyConfig]:
    """Both configurations: the environment's, overridden by what the command line says. Unlike in
    a cluster, topics and groups are created on first use unless somebody says no. `given`: names
    of the parameters that somebody gave; the others have the command's own defaults."""
    environ = dict(os.environ)
    said = {
        "POPMQ_BROKER_DATA_DIR": (str(data_dir), "--data-dir"),
        "POPMQ_BROKER_FLUSH": (flush, "--flush"),
        "POPMQ_PROXY_HOST": (host, "--host"),
        "POPMQ_PROXY_PORT": (str(port), "--port"),
        "POPMQ_PROXY_TLS_PORT": (str(tls_port), "--tls-port"),
    }
    if front is not None:
        said["POPMQ_PROXY_FRONT"] = front, "--front"
    if not create_topics:
        said["POPMQ_PROXY_CREATE_TOPICS"] = "false", "--no-create-topics"
    for name in ("POPMQ_PROXY_CREATE_TOPICS", "POPMQ_BROKER_CREATE_GROUPS"):
        if name not in environ:
            said.setdefault(name, ("true", OWN_DEFAULT))
    environ |= {name: value for name, (value, _) in said.items()}
    sources = {
        name: option if option.lstrip("-").replace("-", "_") in given else OWN_DEFAULT
        for name, (_, option) in said.items()
    }
    return (
        configured(BrokerConfig, "POPMQ_BROKER_", environ, sources),
        configured(ProxyConfig, "POPMQ_PROXY_", environ, sources),
    )


def given_options() -> frozenset[str]:
    """Of the command that runs: parameters that somebody gave."""
    context = click.get_current_context()
    names = [str(one.name) for one in context.command.params]
    source = context.get_parameter_source
    return frozenset(name for name in names if source(name) is ParameterSource.COMMANDLINE)


@click.command("standalone", cls=Command)
@HOST
@click.option(
    "--port", type=PORT, default=8081, show_default=True, help="Port for clients; 0: any free one."
)
@click.option(
    "--tls-port",
    type=PORT,
    default=0,
    help="Port for clients with TLS; only the front grpcio needs one.  [default: none]",
)
@FRONT
@click.option(
    "--cores",
    type=CORES,
    metavar=N_OR_AUTO,
    default="1",
    show_default=True,
    help="Processes, each with a broker and a log of its own; auto: one per two cores.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("popmq-data"),
    show_default=True,
    help="Directory of all files; created if it does not exist.",
)
@click.option(
    "--no-create-topics", is_flag=True, help="Refuse unknown topics instead of creating them."
)
@click.option(
    "--flush",
    type=click.Choice([mode.value for mode in Flush]),
    default="sync",
    show_default=True,
    help="With sync OK means on disk; with async a crash loses the last half second.",
)
@click.option(
    "--metrics-port",
    type=PORT,
    default=0,
    help="Port of the page /metrics for Prometheus.  [default: none]",
)
@console_port_option
@LOG_LEVEL
@click.option("--json", "as_json", is_flag=True, help="Print the endpoints as one JSON line.")
def run_standalone(
    host: str,
    port: int,
    tls_port: int,
    front: str | None,
    cores: int,
    data_dir: Path,
    no_create_topics: bool,
    flush: str,
    metrics_port: int,
    console_port: int | None,
    no_console: bool,
    log_level: str,
    as_json: bool,
) -> None:
    """Run nameserver, broker, proxy and web console in one process."""
    if console_port is not None and not is_installed():
        fail(INSTALL)
    broker_config, proxy_config = standalone_configs(
        host=host,
        port=port,
        tls_port=tls_port,
        data_dir=data_dir,
        create_topics=not no_create_topics,
        flush=flush,
        front=front,
        given=given_options(),
    )
    if broker_config.shards != 1 or proxy_config.workers != 1:
        fail("use --cores N instead of POPMQ_BROKER_SHARDS and POPMQ_PROXY_WORKERS", 2)
    planned = plan(data_dir, broker_config.name, cores, found_shards(data_dir))
    wants_console = not no_console and is_installed()

    @asynccontextmanager
    async def start() -> AsyncIterator[tuple[Standalone, str | None]]:
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            if len(planned) > 1:
                serving = on_cores(
                    planned,
                    broker_config,
                    proxy_config,
                    clock,
                    metrics_port=metrics_port,
                    log_level=log_level,
                )
            else:
                serving = standalone(broker_config, proxy_config, clock, metrics_port=metrics_port)
            served = await stack.enter_async_context(serving)
            url = None
            if wants_console:
                url = await stack.enter_async_context(beside(served, proxy_config, console_port))
            yield served, url

    def ready(serving: Any) -> None:
        served, url = serving
        port, tls_port = served.proxy.port, served.proxy.tls_port
        facts = _facts(host, port, tls_port, metrics_port, broker_config)
        _announce({**facts, "console": url}, as_json)

    run(start, log_level, ready)


def _facts(
    host: str, port: int, tls_port: int, metrics_port: int, broker: BrokerConfig
) -> dict[str, str | None]:
    scheme = "http" if broker.metrics_tls_cert is None else "https"
    return {
        "endpoint": f"{host}:{port}",
        "tlsEndpoint": f"{host}:{tls_port}" if tls_port else None,
        "metrics": f"{scheme}://{host}:{metrics_port}/metrics" if metrics_port else None,
        "dataDir": str(broker.data_dir.resolve()),
        "flush": broker.flush.value,
        "popBuffer": broker.pop_buffer.value,
    }


def _announce(facts: dict[str, str | None], as_json: bool) -> None:
    if as_json:
        document(facts)
        return
    durable = facts["flush"] == Flush.SYNC.value
    promise = "OK means on disk" if durable else "a crash loses the last half second"
    click.echo("PopMQ standalone: any RocketMQ 5 client can talk to it.")
    click.echo(f"  clients    {facts['endpoint']}")
    if facts["tlsEndpoint"]:
        click.echo(f"  with TLS   {facts['tlsEndpoint']}")
    if facts["metrics"]:
        click.echo(f"  metrics    {facts['metrics']}")
    if facts["console"]:
        click.echo(f"  console    {facts['console']}")
    click.echo(f"  data       {facts['dataDir']}")
    click.echo(f"  flush      {facts['flush']}: {promise}")
    if facts["popBuffer"] == PopBuffer.MEMORY.value:
        click.echo("  pop buffer memory: a crash repeats what was received or acked just before")
    click.echo("Try: popmq send hello world   and   popmq receive hello --group g --ack")
