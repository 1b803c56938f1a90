"""popmq health: is a service of this cluster well? For health checks."""

import urllib.request
from http.client import HTTPException
from urllib.error import HTTPError

import click

from popmq_cli.cluster.probe import serving
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import EXIT_UNREACHABLE, document, fail

TIMEOUT_S = 3.0


@click.command(cls=Command)
@click.argument("target")
@json_option
def health(target: str, as_json: bool) -> None:
    """Check whether a service is healthy.

    TARGET is HOST:PORT of a gRPC service, or an http:// URL that must answer 200. Exit codes: 0 it
    is healthy, 1 it says that it is not, 3 it does not answer.
    """
    if target.startswith("http://"):
        _http(target)
    else:
        _grpc(target)
    if as_json:
        document({"target": target, "well": True})
    else:
        click.echo(f"{target} is well.")


def _http(url: str) -> None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S):
            return
    except HTTPError as refused:
        with refused:  # it holds the connection
            fail(f"{url} is not well: {refused}", EXIT_UNREACHABLE)
    except (OSError, HTTPException) as failed:  # URLError is an OSError
        fail(f"{url} is not well: {failed!r}", EXIT_UNREACHABLE)


def _grpc(address: str) -> None:
    try:
        well = serving(address, TIMEOUT_S)
    except OSError as failed:
        fail(f"{address} does not answer: {failed}", EXIT_UNREACHABLE)
        return
    if not well:
        fail(f"{address} is not serving")
