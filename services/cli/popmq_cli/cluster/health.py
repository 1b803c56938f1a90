"""popmq health: is a service of this cluster well? For health checks."""

import ssl
import urllib.request
from http.client import HTTPException
from urllib.error import HTTPError

import click

from popmq_cli.cluster.probe import context, serving
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import EXIT_UNREACHABLE, document, fail

TIMEOUT_S = 3.0
_FILE = click.Path(dir_okay=False)


@click.command(cls=Command)
@click.argument("target")
@click.option(
    "--tls", is_flag=True, help="Connect with TLS; without --tls-ca no certificate is checked."
)
@click.option("--tls-ca", type=_FILE, help="PEM file of the authority that signed its certificate.")
@click.option("--tls-cert", type=_FILE, help="PEM file of the certificate to show.")
@click.option("--tls-key", type=_FILE, help="PEM file of its private key.")
@json_option
def health(
    target: str,
    tls: bool,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    as_json: bool,
) -> None:
    """Check whether a service is healthy.

    TARGET is HOST:PORT of a gRPC service, or an http:// or https:// URL that must answer 200. Exit
    codes: 0 it is healthy, 1 it says that it is not, 3 it does not answer.
    """
    files = (tls_ca, tls_cert, tls_key)
    is_page = target.startswith(("http://", "https://"))
    asked = tls or any(files) or target.startswith("https://")
    secured = _context(files) if asked else None
    if is_page:
        _http(target, secured)
    else:
        if secured is not None:
            secured.set_alpn_protocols(["h2"])
        _grpc(target, secured)
    if as_json:
        document({"target": target, "well": True})
    else:
        click.echo(f"{target} is well.")


def _context(files: tuple[str | None, str | None, str | None]) -> ssl.SSLContext:
    try:
        return context(*files)
    except OSError as wrong:
        raise click.UsageError(f"the files of TLS cannot be used: {wrong}") from wrong


def _http(url: str, tls: ssl.SSLContext | None) -> None:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S, context=tls):
            return
    except HTTPError as refused:
        with refused:  # it holds the connection
            fail(f"{url} is not well: {refused}", EXIT_UNREACHABLE)
    except (OSError, HTTPException) as failed:  # URLError is an OSError
        fail(f"{url} is not well: {failed!r}", EXIT_UNREACHABLE)


def _grpc(address: str, tls: ssl.SSLContext | None) -> None:
    try:
        well = serving(address, TIMEOUT_S, tls)
    except OSError as failed:
        fail(f"{address} does not answer: {failed}", EXIT_UNREACHABLE)
        return
    if not well:
        fail(f"{address} is not serving")
