"""popmq cluster trail: what was changed or refused, at every proxy."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import colored, document, fields, table
from popmq_common.words import counted
from popmq_readings.times import moment

HEADINGS = ["WHEN", "WHO", "FROM", "CALL", "OF", "OUTCOME", "AT PROXY"]
SILENT_MS = 16_000
"""Silence after which a proxy is gone."""


@click.command("trail", cls=Command)
@click.option(
    "--filter", "text", default="", metavar="TEXT", help="Text in WHO, FROM, CALL, OF or OUTCOME."
)
@click.option("--what", type=click.Choice(["change", "refused"]), help="Only one kind of line.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=100,
    show_default=True,
    help="At most so many lines.",
)
@client_options
@running
async def trail(text: str, what: str | None, limit: int, endpoint: str, as_json: bool) -> None:
    """Show the last changes and refusals at every proxy, the newest first.

    Each proxy remembers its last 500 lines since its start; its audit file has all. What happened
    at other proxies is seen within five seconds.
    """
    request = admin.ListAuditLinesRequest(text=text, what=what or "", count_max=limit)
    async with AdminClient(endpoint) as stub:
        told = await stub.ListAuditLines(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(told))
        return
    table(HEADINGS, [_row(one) for one in told.lines])
    for broker in told.silent_brokers:
        click.echo(f"{colored('!', 'yellow')} broker {broker} does not tell what it heard")
    for one in told.proxies:
        gone = f", silent for {one.silent_ms // 1000} s" if one.silent_ms > SILENT_MS else ""
        since = f"since {moment(one.started_ms)}{gone}"
        click.echo(f"proxy {one.name}: {counted(one.lines, 'line')} {since}")
    if told.more:
        click.echo("There are older ones: --limit, --filter")


def _row(one: admin.AuditLine) -> list[object]:
    call = f"{one.call} ×{one.count}" if one.count > 1 else one.call
    of = " ".join(filter(None, [one.resource, one.target]))
    outcome = f"refused: {one.outcome}" if one.what == "refused" else one.outcome
    return [moment(one.at_ms), one.user or "-", one.address, call, of, outcome, one.proxy]
