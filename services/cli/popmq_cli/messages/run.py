"""popmq run: the handlers of an app, until SIGTERM or Ctrl-C."""

import sys
from collections.abc import Callable
from typing import Any

import click

from popmq.app import launch
from popmq.app.launch import LOG_LEVELS, WORKERS_MAX
from popmq.app.run_options import Misuse, RunOptions
from popmq_cli.shell.commands import Command, ServerOption
from popmq_cli.shell.parameters import Number
from popmq_cli.shell.server_options import context_names


def _connect_options(command: Callable[..., None]) -> Callable[..., None]:
    for words, help_text, metavar, variable in reversed(launch.CONNECT_OPTIONS):
        option = click.option(
            *words.split("/"),
            cls=ServerOption,
            envvar=variable or None,
            show_envvar=bool(variable),
            metavar=metavar,
            default="",
            shell_complete=context_names if words == "--context" else None,
            help=help_text,
        )
        command = option(command)
    return command


@click.command(cls=Command)
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--workers",
    type=Number(1, WORKERS_MAX),
    default=1,
    show_default=True,
    help=launch.WORKERS_HELP,
)
@click.option("--reload", is_flag=True, help=launch.RELOAD_HELP)
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="info",
    show_default=True,
    help=launch.LEVEL_HELP,
)
@click.option(
    "--endpoint",
    cls=ServerOption,
    envvar=launch.ENDPOINT_VARIABLE,
    show_envvar=True,
    metavar="HOST:PORT",
    default="",
    show_default="as the app says",
    help=launch.ENDPOINT_HELP,
)
@click.option("--tls", cls=ServerOption, is_flag=True, help="Connect with TLS.")
@_connect_options
def run(**options: Any) -> None:
    """Run the handlers of an app, until SIGTERM or Ctrl-C.

    MODULE:APP says where the app is: shop.handlers:app is the name app in the module shop.handlers;
    shop.handlers is enough if the module has one app; a file is given as handlers.py. Modules are
    searched in the current directory first.
    """
    try:
        sys.exit(launch.run(RunOptions(**options)))
    except Misuse as wrong:
        raise click.UsageError(str(wrong)) from wrong
