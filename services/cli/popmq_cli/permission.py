"""popmq permission: what clients may do at a broker, to empty it before it goes."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document

PERMISSIONS = ["read", "read-write"]


@click.command()
@click.argument("broker")
@click.argument("allowed", type=click.Choice(PERMISSIONS), metavar="|".join(PERMISSIONS))
@client_options
@running
async def permission(broker: str, allowed: str, endpoint: str, as_json: bool) -> None:
    """Let clients only read from BROKER, or read and write again.

    New messages go to other brokers meanwhile; those of message groups that are on it are refused.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.SetPermissionRequest(broker=broker, permission=allowed)
        await stub.SetPermission(request, timeout=TIMEOUT_S)
    if as_json:
        document({"broker": broker, "permission": allowed})
        return
    click.echo(f"Clients may {allowed.replace('-', ' and ')} at {broker}.")
