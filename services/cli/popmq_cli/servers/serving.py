"""What all commands have in common that run a service: configuration, log, the end.

Each service is a command's own module: a broker that starts again loads a broker alone.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import click

from popmq_cli.shell.output import fail
from popmq_common.errors import PopMQError
from popmq_common.process import logs
from popmq_common.process.config import ConfigError, from_env, unknown_variables
from popmq_common.process.serve import run_until_stopped

T = TypeVar("T")
C = TypeVar("C")
Start = Callable[[], AbstractAsyncContextManager[object]]


def serve(
    config: C,
    start: Start,
    log_level: str,
    prefix: str,
    *,
    check_only: bool,
    check: Callable[[C], None] = lambda _: None,
) -> None:
    """Until SIGTERM; `prefix` is of the variables that `config` was read from. `check` raises
    `ConfigError` for values that do not fit together."""
    for name in unknown_variables(type(config), prefix, os.environ):
        click.echo(f"popmq: warning: {name} means nothing here", err=True)
    try:
        check(config)
    except ConfigError as wrong:
        fail(str(wrong), 2)
    if check_only:
        click.echo("The configuration is complete.")
        return
    run(start, log_level)


def run(start: Start, log_level: str, ready: Callable[[object], None] | None = None) -> None:
    """Until SIGTERM; `ready` is told what serves."""
    try:
        logs.configure(log_level, limited=True)
        run_until_stopped(start, ready)
    except (PopMQError, ConfigError, RuntimeError, ValueError) as wrong:
        fail(str(wrong))
    except OSError as wrong:  # a directory that cannot be made, a port that is in use
        why = wrong.strerror or str(wrong)
        fail(
            f"it cannot start: {why}: {wrong.filename}"
            if wrong.filename
            else f"it cannot start: {why}"
        )


def configured_by(cls: type[T], prefix: str, options: Mapping[str, tuple[object | None, str]]) -> T:
    """From the environment and the command line. `options`: the variable's name → the value that
    was given, None without one, and the option's name."""
    given = {name: one for name, one in options.items() if one[0] is not None}
    environ = {**os.environ, **{name: str(value) for name, (value, _) in given.items()}}
    return configured(cls, prefix, environ, {name: option for name, (_, option) in given.items()})


def configured(
    cls: type[T], prefix: str, environ: Mapping[str, str], options: Mapping[str, str] | None = None
) -> T:
    """From the environment; what is wrong with it ends the process, with exit code 2. `options`:
    what else set a variable, by its name."""
    try:
        return from_env(cls, prefix, environ, options)
    except ConfigError as wrong:
        fail(str(wrong), 2)
        raise AssertionError("fail ends the process") from wrong
