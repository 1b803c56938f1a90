"""popmq proxy."""

import os
from contextlib import AbstractAsyncContextManager

import click

from popmq_cli.servers.front_option import FRONT
from popmq_cli.servers.serving import configured, serve
from popmq_cli.shell.commands import Command
from popmq_common.process.clock import SystemClock
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig


@click.command("proxy", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
@FRONT
def run_proxy(check_config: bool, front: str | None) -> None:
    """Run a proxy.

    It is configured by environment variables POPMQ_PROXY_…, see docs/configuration.md.
    """
    environ, options = dict(os.environ), {}
    if front is not None:
        environ["POPMQ_PROXY_FRONT"] = front
        options["POPMQ_PROXY_FRONT"] = "--front"
    config = configured(ProxyConfig, "POPMQ_PROXY_", environ, options)

    def start() -> AbstractAsyncContextManager[object]:
        return proxy(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_PROXY_", check_config=check_config)
