"""popmq nameserver."""

import os
from contextlib import AbstractAsyncContextManager

import click

from popmq_cli.serving import configured, serve
from popmq_common.clock import SystemClock
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig


@click.command("nameserver")
@click.option("--check-config", is_flag=True, help="Only check the environment.")
def run_nameserver(check_config: bool) -> None:
    """Run a nameserver, configured by POPMQ_NAMESERVER_… variables."""
    config = configured(NameserverConfig, "POPMQ_NAMESERVER_", os.environ)

    def start() -> AbstractAsyncContextManager[object]:
        return nameserver(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_NAMESERVER_", check_config=check_config)
