"""popmq permission: what clients may do at a broker, to empty it before it goes."""

from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document

PERMISSIONS: Final = ["read", "read-write"]


@click.command(cls=Command)
@click.argument("broker")
@click.argument("allowed", type=click.Choice(PERMISSIONS), metavar="|".join(PERMISSIONS))
@client_options
@running
async def permission(broker: str, allowed: str, endpoint: str, as_json: bool) -> None:
    """Make BROKER read-only for clients, or let them write again.

    Use it to empty a broker before you remove it. New messages go to other brokers. New messages of
    a message group that has its place on BROKER are refused: elsewhere they would be out of order.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.SetPermissionRequest(broker=broker, permission=allowed)
        await stub.SetPermission(request, timeout=TIMEOUT_S)
    if as_json:
        document({"broker": broker, "permission": allowed})
        return
    click.echo(f"Clients may {allowed.replace('-', ' and ')} at {broker}.")
