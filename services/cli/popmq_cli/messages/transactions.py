"""popmq transaction: list what is not settled, and settle it by hand."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document, note, table
from popmq_cli.shell.parameters import Number, now_ms

COUNT_MAX = 1_000


@click.group(cls=CommandGroup)
def transaction() -> None:
    """List open transactions; commit them or roll them back."""


@transaction.command("list")
@click.option(
    "--topic",
    default="",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Only transactions of this topic.",
)
@click.option(
    "--limit",
    type=Number(1, COUNT_MAX),
    default=100,
    show_default=True,
    help="List at most this many of each broker.",
)
@client_options
@running
async def list_transactions(topic: str, limit: int, endpoint: str, as_json: bool) -> None:
    """List the transactions that are not settled, oldest first."""
    async with AdminClient(endpoint) as stub:
        request = admin.ListTransactionsRequest(topic=topic, count_max=limit)
        response = await stub.ListTransactions(request, timeout=TIMEOUT_S)
    if as_json:
        found = [_fields(one) for one in response.transactions]
        document({"transactions": found, "count": response.count})
        return
    asked_ms = now_ms()
    rows = [
        (one.transaction_id, one.topic, _age(asked_ms - one.stored_ms), one.checks, one.keys)
        for one in response.transactions
    ]
    table(["TRANSACTION ID", "TOPIC", "AGE", "CHECKS", "KEYS"], rows)
    if response.count > len(rows):
        note(f"{response.count} in all.")


@transaction.command()
@click.argument("transaction_id")
@client_options
@running
async def commit(transaction_id: str, endpoint: str, as_json: bool) -> None:
    """Commit a transaction by hand: its message is delivered."""
    await _settle(endpoint, transaction_id, commit=True, as_json=as_json)


@transaction.command()
@click.argument("transaction_id")
@client_options
@running
async def rollback(transaction_id: str, endpoint: str, as_json: bool) -> None:
    """Roll a transaction back by hand: its message is dropped."""
    await _settle(endpoint, transaction_id, commit=False, as_json=as_json)


async def _settle(endpoint: str, transaction_id: str, *, commit: bool, as_json: bool) -> None:
    async with AdminClient(endpoint) as stub:
        request = admin.SettleTransactionRequest(transaction_id=transaction_id, commit=commit)
        await stub.SettleTransaction(request, timeout=TIMEOUT_S)
    outcome = "committed" if commit else "rolled back"
    if as_json:
        document({"transactionId": transaction_id, "outcome": outcome})
    else:
        click.echo(f"Transaction {transaction_id} is {outcome}.")


def _fields(one: admin.Transaction) -> dict[str, object]:
    return {
        "transactionId": one.transaction_id,
        "broker": one.broker,
        "topic": one.topic,
        "checks": one.checks,
        "storedMs": one.stored_ms,
        "messageId": one.message_id,
        "keys": one.keys.split(),
        "tag": one.tag,
        "bodyBytes": one.body_bytes,
    }


def _age(ms: int) -> str:
    seconds = max(0, ms) // 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
