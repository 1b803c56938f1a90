"""popmq broker."""

from contextlib import AbstractAsyncContextManager

import click

from popmq_broker.config import BrokerConfig
from popmq_broker.shards.supervisor import check, serving
from popmq_cli.servers.cores_type import CORES, N_OR_AUTO
from popmq_cli.servers.serving import configured_by, serve
from popmq_cli.shell.commands import Command
from popmq_common.process.clock import SystemClock


@click.command("broker", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
@click.option(
    "--shards",
    type=CORES,
    metavar=N_OR_AUTO,
    help="Processes, each a broker with a log of its own; auto: one per two cores.  "
    "[default: POPMQ_BROKER_SHARDS, else 1]",
)
def run_broker(check_config: bool, shards: int | None) -> None:
    """Run a broker.

    It is configured by environment variables POPMQ_BROKER_…, see docs/configuration.md.
    """
    options = {"POPMQ_BROKER_SHARDS": (shards, "--shards")}
    config = configured_by(BrokerConfig, "POPMQ_BROKER_", options)

    def start() -> AbstractAsyncContextManager[object]:
        return serving(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_BROKER_", check_only=check_config, check=check)
