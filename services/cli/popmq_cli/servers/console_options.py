"""Where a console listens, and whether it can be there: options of console and standalone."""

import importlib.util
from collections.abc import Callable
from typing import Any, Final

import click

from popmq_cli.shell.parameters import PORT

CONSOLE_PORT: Final = 8082
NEEDED: Final = ("jinja2", "jsonpath", "multipart", "starlette", "uvicorn")
INSTALL: Final = "the console needs the extra console: pip install 'popmq[console]'"


def is_installed() -> bool:
    """Whether the extra `console` is there."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def console_port_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--console-port, --no-console; the command gets None where the port was not said."""
    command = click.option("--no-console", is_flag=True, help="Do not serve the web console.")(
        command
    )
    return click.option(
        "--console-port",
        type=PORT,
        default=None,
        help="Port of the web console, on this machine alone; 0: any free one.  "
        f"[default: {CONSOLE_PORT}, if the extra console is installed]",
    )(command)
