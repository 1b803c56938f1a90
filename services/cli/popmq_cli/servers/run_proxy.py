"""popmq proxy."""

import os
from contextlib import AbstractAsyncContextManager

import click

from popmq_cli.servers.front_option import FRONT
from popmq_cli.servers.serving import configured, serve
from popmq_cli.shell.commands import Command
from popmq_cli.shell.parameters import Number
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import ConfigError, to_env
from popmq_proxy.app import proxy
from popmq_proxy.config import Front, ProxyConfig
from popmq_proxy.front.envoy import envoy_front


@click.command("proxy", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
@FRONT
@click.option(
    "--workers",
    type=Number(1, 256),
    default=None,
    help="Processes that share the port; envoy only.  [default: POPMQ_PROXY_WORKERS, else 1]",
)
def run_proxy(check_config: bool, front: str | None, workers: int | None) -> None:
    """Run a proxy.

    It is configured by environment variables POPMQ_PROXY_…, see docs/configuration.md.
    """
    environ = dict(os.environ)
    if front is not None:
        environ["POPMQ_PROXY_FRONT"] = front
    if workers is not None:
        environ["POPMQ_PROXY_WORKERS"] = str(workers)
    config = configured(ProxyConfig, "POPMQ_PROXY_", environ)

    def start() -> AbstractAsyncContextManager[object]:
        if config.front is Front.ENVOY:
            environ = to_env(config, "POPMQ_PROXY_")
            return envoy_front(config, "popmq_proxy.envoy_main:app", environ)
        if config.workers > 1:
            raise ConfigError("several workers need the Envoy front: popmq proxy --front envoy")
        return proxy(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_PROXY_", check_config=check_config)
