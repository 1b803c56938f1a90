"""--retry-policy."""

from collections.abc import Callable
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_readings.retry_policies import parse_policy


def policy_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--retry-policy; the command gets `None` when it is not given."""
    return click.option(
        "--retry-policy",
        callback=_convert,
        metavar="POLICY",
        help="Delays between attempts: table (RocketMQ's, 1s to 2h), a list like 1s,10s,5m, or "
        "exponential:INITIAL:MAX[:FACTOR].",
    )(command)


def _convert(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> admin.RetryPolicy | None:
    try:
        return None if value is None else parse_policy(value)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), ctx, param) from None
