"""popmq standalone, broker, proxy, nameserver: run the services."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig, Flush, PopBuffer
from popmq_cli.output import document, fail
from popmq_cli.standalone import METRICS_PORT_VARIABLE, Standalone, standalone
from popmq_common import logs
from popmq_common.clock import SystemClock
from popmq_common.config import ConfigError, from_env, to_env, unknown_variables
from popmq_common.errors import PopMQError
from popmq_common.serve import run_until_stopped
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.app import proxy
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.front.envoy import EnvoyFront, envoy_front

T = TypeVar("T")
Start = Callable[[], AbstractAsyncContextManager[object]]


_FRONT = click.option(
    "--front",
    type=click.Choice([front.value for front in Front]),
    default=None,
    help="What speaks HTTP/2 to clients.  [default: POPMQ_PROXY_FRONT, else http2]",
)


def standalone_configs(
    *,
    host: str,
    port: int,
    tls_port: int,
    data_dir: Path,
    create_topics: bool,
    flush: str,
    front: str = Front.HTTP2.value,
) -> tuple[BrokerConfig, ProxyConfig]:
    """Both configurations: the environment's, overridden by what the command line says."""
    environ = dict(os.environ)
    environ["POPMQ_BROKER_DATA_DIR"] = str(data_dir)
    environ["POPMQ_BROKER_FLUSH"] = flush
    environ["POPMQ_PROXY_HOST"] = host
    environ["POPMQ_PROXY_PORT"] = str(port)
    environ["POPMQ_PROXY_TLS_PORT"] = str(tls_port)
    environ["POPMQ_PROXY_CREATE_TOPICS"] = str(create_topics)
    environ["POPMQ_PROXY_FRONT"] = front
    return (
        _config(BrokerConfig, "POPMQ_BROKER_", environ),
        _config(ProxyConfig, "POPMQ_PROXY_", environ),
    )


@click.command("standalone")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8081, show_default=True, help="Port for clients; 0: a free one.")
@click.option(
    "--tls-port",
    default=0,
    help="A port for clients with TLS; only the front grpcio needs one.  [default: none]",
)
@_FRONT
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("popmq-data"),
    show_default=True,
    help="Directory of all files; made if it does not exist.",
)
@click.option(
    "--no-create-topics", is_flag=True, help="Refuse unknown topics instead of making them."
)
@click.option(
    "--flush",
    type=click.Choice([mode.value for mode in Flush]),
    default="sync",
    show_default=True,
    help="sync: OK means on disk. async: a crash loses the last half second.",
)
@click.option("--metrics-port", default=0, help="Port of /metrics.  [default: none]")
@click.option(
    "--log-level", default="warning", show_default=True, help="debug, info, warning, error."
)
@click.option("--json", "as_json", is_flag=True, help="Print what is served as one JSON line.")
def run_standalone(
    host: str,
    port: int,
    tls_port: int,
    front: str | None,
    data_dir: Path,
    no_create_topics: bool,
    flush: str,
    metrics_port: int,
    log_level: str,
    as_json: bool,
) -> None:
    """Run a whole PopMQ in this process: nameserver, broker and proxy on one port."""
    broker_config, proxy_config = standalone_configs(
        host=host,
        port=port,
        tls_port=tls_port,
        data_dir=data_dir,
        create_topics=not no_create_topics,
        flush=flush,
        front=front or os.environ.get("POPMQ_PROXY_FRONT", Front.HTTP2.value),
    )

    def start() -> AbstractAsyncContextManager[object]:
        if proxy_config.front is not Front.ENVOY:
            return standalone(broker_config, proxy_config, SystemClock(), metrics_port=metrics_port)
        environ = {**to_env(broker_config, "POPMQ_BROKER_"), **to_env(proxy_config, "POPMQ_PROXY_")}
        environ[METRICS_PORT_VARIABLE] = str(metrics_port)
        environ["POPMQ_PROXY_LOG_LEVEL"] = log_level
        one = replace(proxy_config, workers=1)  # the broker is in there, and there is one of it
        return envoy_front(one, "popmq_cli.standalone:envoy_application", environ)

    def ready(serving: object) -> None:
        if isinstance(serving, EnvoyFront):
            port = tls_port = serving.port
        else:
            assert isinstance(serving, Standalone)
            port, tls_port = serving.proxy.port, serving.proxy.tls_port
        _announce(_facts(host, port, tls_port, metrics_port, broker_config), as_json)

    _run(start, log_level, ready)


def _facts(
    host: str, port: int, tls_port: int, metrics_port: int, broker: BrokerConfig
) -> dict[str, str | None]:
    return {
        "endpoint": f"{host}:{port}",
        "tlsEndpoint": f"{host}:{tls_port}" if tls_port else None,
        "metrics": f"http://{host}:{metrics_port}/metrics" if metrics_port else None,
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
    click.echo(f"  data       {facts['dataDir']}")
    click.echo(f"  flush      {facts['flush']}: {promise}")
    if facts["popBuffer"] == PopBuffer.MEMORY.value:
        click.echo("  pop buffer memory: a crash repeats what was received or acked just before")
    click.echo("Try: popmq send hello world   and   popmq receive hello --group g --ack")


@click.command("broker")
@click.option("--check-config", is_flag=True, help="Only check the environment.")
def run_broker(check_config: bool) -> None:
    """Run a broker, configured by POPMQ_BROKER_… variables."""
    config = _config(BrokerConfig, "POPMQ_BROKER_", os.environ)
    _serve(lambda: server(config, SystemClock()), config.log_level, "POPMQ_BROKER_", check_config)


@click.command("proxy")
@click.option("--check-config", is_flag=True, help="Only check the environment.")
@_FRONT
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=None,
    help="Processes that share the port; envoy only.  [default: POPMQ_PROXY_WORKERS, else 1]",
)
def run_proxy(check_config: bool, front: str | None, workers: int | None) -> None:
    """Run a proxy, configured by POPMQ_PROXY_… variables."""
    environ = dict(os.environ)
    if front is not None:
        environ["POPMQ_PROXY_FRONT"] = front
    if workers is not None:
        environ["POPMQ_PROXY_WORKERS"] = str(workers)
    config = _config(ProxyConfig, "POPMQ_PROXY_", environ)

    def start() -> AbstractAsyncContextManager[object]:
        if config.front is Front.ENVOY:
            environ = to_env(config, "POPMQ_PROXY_")
            return envoy_front(config, "popmq_proxy.envoy_main:app", environ)
        if config.workers > 1:
            raise ConfigError("several workers need the Envoy front: popmq proxy --front envoy")
        return proxy(config, SystemClock())

    _serve(start, config.log_level, "POPMQ_PROXY_", check_config)


@click.command("nameserver")
@click.option("--check-config", is_flag=True, help="Only check the environment.")
def run_nameserver(check_config: bool) -> None:
    """Run a nameserver, configured by POPMQ_NAMESERVER_… variables."""
    config = _config(NameserverConfig, "POPMQ_NAMESERVER_", os.environ)

    def start() -> AbstractAsyncContextManager[object]:
        return nameserver(config, SystemClock())

    _serve(start, config.log_level, "POPMQ_NAMESERVER_", check_config)


_CLASSES: dict[str, type[Any]] = {
    "POPMQ_BROKER_": BrokerConfig,
    "POPMQ_PROXY_": ProxyConfig,
    "POPMQ_NAMESERVER_": NameserverConfig,
}


def _serve(start: Start, log_level: str, prefix: str, check_config: bool) -> None:
    for name in unknown_variables(_CLASSES[prefix], prefix, os.environ):
        click.echo(f"popmq: warning: {name} means nothing here", err=True)
    if check_config:
        click.echo("The configuration is complete.")
        return
    _run(start, log_level)


def _run(start: Start, log_level: str, ready: Callable[[object], None] | None = None) -> None:
    try:
        logs.configure(log_level)
        run_until_stopped(start, ready)
    except (PopMQError, ConfigError, RuntimeError, ValueError) as wrong:
        fail(str(wrong))


def _config(cls: type[T], prefix: str, environ: Any) -> T:
    try:
        return from_env(cls, prefix, environ)
    except ConfigError as wrong:
        fail(str(wrong), 2)
        raise AssertionError("fail ends the process") from wrong
