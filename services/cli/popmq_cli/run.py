"""popmq run: the handlers of an app, until SIGTERM or Ctrl-C."""

import asyncio
import importlib
import logging
import os
import sys

import click

from popmq import App, PopMQClientError
from popmq_cli.output import fail


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--endpoint",
    envvar="POPMQ_ENDPOINT",
    metavar="HOST:PORT",
    help="Where the server is.  [default: as the app says]",
)
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning, error.")
def run(target: str, endpoint: str | None, log_level: str) -> None:
    """Run the handlers of an app: MODULE is imported from here, APP is its name there."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    app = load(target)
    if endpoint:
        app.endpoint = endpoint
    try:
        asyncio.run(app.run())
    except (PopMQClientError, RuntimeError) as failed:
        fail(str(failed))


def load(target: str) -> App:
    """The app that `module:name` means; the current folder is searched first."""
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise click.BadParameter(f"{target!r} is not MODULE:APP, e.g. shop.handlers:app")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        raise click.BadParameter(f"there is no module {missing.name!r} here") from missing
    app = getattr(found, name, None)
    if not isinstance(app, App):
        raise click.BadParameter(f"{name!r} in {module} is no popmq.App")
    return app
