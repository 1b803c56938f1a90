"""popmq acl test: what would be decided, and by which entry."""

import ipaddress
import sys
from collections.abc import Sequence
from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.options import ActionList, all_of, resources
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import user_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import EXIT_FAILED, colored, document, fields
from popmq_readings.access_words import entry_text, subject_text, username_of

EXIT_DENIED: Final = EXIT_FAILED


def _address(context: click.Context, option: click.Parameter, text: str) -> str:
    """Raises `click.BadParameter`."""
    try:
        return str(ipaddress.ip_address(text.strip())) if text else ""
    except ValueError as wrong:
        raise click.BadParameter(f"{text!r} is no IP address") from wrong


@click.command("test", cls=Command)
@click.argument("subject", shell_complete=user_names)
@click.option(
    "--resource",
    required=True,
    metavar="RESOURCE",
    shell_complete=resources,
    help="What the request is about: Topic:NAME, Group:NAME or Cluster:NAME.",
)
@click.option(
    "--action",
    "actions",
    multiple=True,
    required=True,
    type=ActionList(),
    help="What the user wants to do. With several, one that is allowed is enough.",
)
@click.option(
    "--source-ip",
    default="",
    metavar="ADDRESS",
    callback=_address,
    help="Where the request comes from.  [default: this machine]",
)
@client_options
@running
async def test(
    subject: str,
    resource: str,
    actions: Sequence[Sequence[str]],
    source_ip: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Show what SUBJECT may do, and which entry decides.

    Nothing is changed. The decision is the one of the policies, even if authorization is off and
    the server would allow everything. Exit code 0: allowed; 1: denied.
    """
    request = admin.TestAccessRequest(
        username=username_of(subject),
        resource=resource,
        actions=all_of(actions),
        source_ip=source_ip,
    )
    async with AdminClient(endpoint) as stub:
        response = await stub.TestAccess(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
    else:
        _show(request, response)
    if not response.allowed:
        sys.exit(EXIT_DENIED)


def _show(request: admin.TestAccessRequest, response: admin.TestAccessResponse) -> None:
    asked = f"{' or '.join(request.actions)} at {request.resource}"
    place = f" from {request.source_ip}" if request.source_ip else ""
    verdict = colored("Allowed", "green") if response.allowed else colored("Denied", "red")
    click.echo(f"{verdict}: {subject_text(request.username)}, {asked}{place}")
    if not response.policy_type:
        click.echo(f"Decided by: {response.reason}")
        return
    told = entry_text(response.entry)
    click.echo(f"Decided by: the entry of policy {response.policy_type}: {told}")
