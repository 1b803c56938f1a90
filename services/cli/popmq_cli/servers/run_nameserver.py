"""popmq nameserver."""

import os
from contextlib import AbstractAsyncContextManager

import click

from popmq_cli.servers.serving import configured, serve
from popmq_cli.shell.commands import Command
from popmq_common.process.clock import SystemClock
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig


@click.command("nameserver", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
def run_nameserver(check_config: bool) -> None:
    """Run a nameserver.

    It is configured by environment variables POPMQ_NAMESERVER_…, see docs/configuration.md.
    """
    config = configured(NameserverConfig, "POPMQ_NAMESERVER_", os.environ)

    def start() -> AbstractAsyncContextManager[object]:
        return nameserver(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_NAMESERVER_", check_only=check_config)
