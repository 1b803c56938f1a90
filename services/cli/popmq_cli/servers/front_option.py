"""--front, of the commands that serve clients."""

import click

from popmq_proxy.config import Front

FRONT = click.option(
    "--front",
    type=click.Choice([front.value for front in Front]),
    default=None,
    help="The HTTP/2 server that clients connect to.  [default: POPMQ_PROXY_FRONT, else http2]",
)
