"""popmq limit: how much users, topics and clients may send, wait for, keep open and create."""

from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.options import tell_missing
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document, table
from popmq_cli.shell.parameters import OFFSET, Number

AMOUNT: Final = Number()
NONE: Final = "-"
HEADINGS: Final = [
    *("SUBJECT", "MESSAGES/S", "BYTES/S", "WAITING RECEIVES"),
    *("CALLS", "CONNECTIONS", "CREATIONS/H"),
]


@click.group(cls=CommandGroup)
def limit() -> None:
    """Limit what users, topics and clients send, wait for, keep open and create."""


@limit.command("set")
@click.argument("subject")
@click.option("--messages", type=AMOUNT, default=0, help="Messages sent per second; 0: no limit.")
@click.option(
    "--bytes",
    "size",
    type=OFFSET,
    default=0,
    help="Bytes of message bodies sent per second; 0: no limit.",
)
@click.option(
    "--receives", type=AMOUNT, default=0, help="Receives that wait at the same time; 0: no limit."
)
@click.option(
    "--calls",
    type=AMOUNT,
    default=0,
    help="Calls under way, waiting receives among them; 0: no limit. Not of topics.",
)
@click.option(
    "--connections", type=AMOUNT, default=0, help="Connections; 0: no limit. Not of topics."
)
@click.option(
    "--creations",
    type=AMOUNT,
    default=0,
    help="Topics and groups created on first use per hour; 0: no limit. Only of users.",
)
@client_options
@running
async def set_limits(
    subject: str,
    messages: int,
    size: int,
    receives: int,
    calls: int,
    connections: int,
    creations: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Set the limits of SUBJECT.

    SUBJECT is User:NAME or Topic:NAME. User:*, Topic:* and Client:* stand for each user, topic or
    client that has no limits of its own. An option that you leave out means no limit; without
    options SUBJECT has no limits of its own any more. Each proxy counts for itself. Limits need
    authentication.
    """
    limits = admin.Limits(
        subject=subject,
        messages_per_s=messages,
        bytes_per_s=size,
        waiting_receives=receives,
        calls=calls,
        connections=connections,
        creations_per_h=creations,
    )
    async with AdminClient(endpoint) as stub:
        request = admin.SetLimitsRequest(limits=limits)
        response = await stub.SetLimits(request, timeout=TIMEOUT_S)
    if as_json:
        document({**_fields(limits), "missingBrokers": list(response.missing_brokers)})
        return
    tell_missing(response.missing_brokers)
    has = "has these limits now" if any(_amounts(limits)) else "has no limits of its own"
    click.echo(f"{subject} {has}.")


@limit.command("list")
@client_options
@running
async def list_limits(endpoint: str, as_json: bool) -> None:
    """List all limits."""
    async with AdminClient(endpoint) as stub:
        found = (await stub.ListLimits(admin.ListLimitsRequest(), timeout=TIMEOUT_S)).limits
    if as_json:
        document({"limits": [_fields(one) for one in found]})
        return
    if not found:
        click.echo("There are no limits. Set one with: popmq limit set")
        return
    rows = [(one.subject, *(amount or NONE for amount in _amounts(one))) for one in found]
    table(HEADINGS, rows)


def _amounts(limits: admin.Limits) -> list[str | int]:
    _, *amounts = _fields(limits).values()
    return amounts


def _fields(limits: admin.Limits) -> dict[str, str | int]:
    return {
        "subject": limits.subject,
        "messagesPerS": limits.messages_per_s,
        "bytesPerS": limits.bytes_per_s,
        "waitingReceives": limits.waiting_receives,
        "calls": limits.calls,
        "connections": limits.connections,
        "creationsPerH": limits.creations_per_h,
    }
