"""popmq run: the handlers of an app, until SIGTERM or Ctrl-C."""

import sys
from typing import Any

import click

from popmq.launch import LOG_LEVELS, WORKERS_MAX, NoApp, Options
from popmq.launch import run as launch


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--endpoint",
    envvar="POPMQ_ENDPOINT",
    metavar="HOST:PORT",
    default="",
    help="Where the server is.  [default: as the app says]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    show_default=True,
    help="Processes; one that fails is replaced.",
)
@click.option("--reload", is_flag=True, help="Start again when a Python file here changes.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="info",
    show_default=True,
    help="The least that is logged.",
)
def run(**options: Any) -> None:
    """Run the handlers of an app: MODULE is imported from here, APP is its name there.

    MODULE:APP may be shop.handlers:app, shop.handlers if it has one app, or handlers.py.
    """
    try:
        sys.exit(launch(Options(**options)))
    except NoApp as wrong:
        raise click.BadParameter(str(wrong)) from wrong
