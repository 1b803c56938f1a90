"""popmq proxy."""

from contextlib import AbstractAsyncContextManager

import click

from popmq_cli.servers.cores_type import CORES, N_OR_AUTO
from popmq_cli.servers.front_option import FRONT
from popmq_cli.servers.serving import configured_by, serve
from popmq_cli.shell.commands import Command
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_proxy.workers.supervisor import check, serving


@click.command("proxy", cls=Command)
@click.option("--check-config", is_flag=True, help="Check the configuration and exit.")
@FRONT
@click.option(
    "--workers",
    type=CORES,
    metavar=N_OR_AUTO,
    help="Processes, which share the ports; auto: one per two cores.  "
    "[default: POPMQ_PROXY_WORKERS, else 1]",
)
def run_proxy(check_config: bool, front: str | None, workers: int | None) -> None:
    """Run a proxy.

    It is configured by environment variables POPMQ_PROXY_…, see docs/configuration.md.
    """
    options = {
        "POPMQ_PROXY_FRONT": (front, "--front"),
        "POPMQ_PROXY_WORKERS": (workers, "--workers"),
    }
    config = configured_by(ProxyConfig, "POPMQ_PROXY_", options)

    def start() -> AbstractAsyncContextManager[object]:
        return serving(config, SystemClock())

    serve(config, start, config.log_level, "POPMQ_PROXY_", check_only=check_config, check=check)
