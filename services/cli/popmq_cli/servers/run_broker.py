"""popmq broker."""

import os
from contextlib import AbstractAsyncContextManager

import click

from popmq_broker.app import serving
from popmq_broker.config import BrokerConfig
from popmq_cli.servers.serving import configured, serve
from popmq_cli.shell.commands import Command
from popmq_common.process.clock import SystemClock


@click.command("broker", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
def run_broker(check_config: bool) -> None:
    """Run a broker.

    It is configured by environment variables POPMQ_BROKER_…, see docs/configuration.md.
    """
    config = configured(BrokerConfig, "POPMQ_BROKER_", os.environ)

    def start() -> AbstractAsyncContextManager[object]:
        return serving(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_BROKER_", check_config=check_config)
