"""--host and --log-level, of commands that listen on this machine alone by default."""

from typing import Final

import click

from popmq_common.process import logs

HOST: Final = click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on."
)
LOG_LEVEL: Final = click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="warning",
    show_default=True,
    help="Log this and what is more severe.",
)
