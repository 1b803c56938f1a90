"""popmq cluster settings: what brokers and proxies were told, and by what."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import colored, document, table
from popmq_common.words import counted
from popmq_readings.settings_view import SettingRow, chosen_rows, settings_view

HEADINGS = ["ROLE", "SETTING", "VALUE", "SET BY", "AT"]


@click.command("settings", cls=Command)
@click.argument("name", required=False, default="")
@click.option("--filter", "text", default="", metavar="TEXT", help="Text in a name or a value.")
@click.option("--changed", is_flag=True, help="Only what is not the default somewhere.")
@click.option("--differing", is_flag=True, help="Only what differs and should not.")
@client_options
@running
async def settings(
    name: str, text: str, changed: bool, differing: bool, endpoint: str, as_json: bool
) -> None:
    """Show the settings in force, and what set each.

    NAME is a broker or a proxy; without it, all are compared. ≠ marks a setting that differs
    between brokers, or between proxies, and should not. Secrets are shown as `set`.
    """
    async with AdminClient(endpoint) as stub:
        request = admin.ShowSettingsRequest(name=name)
        told = await stub.ShowSettings(request, timeout=TIMEOUT_S)
    view = settings_view(told.services)
    rows = chosen_rows(view.rows, text, changed=changed, differing=differing)
    if as_json:
        failures = [{"service": who, "failure": why} for who, why in view.failures]
        document({"settings": [_as_fields(row) for row in rows], "failures": failures})
        return
    table(HEADINGS, [line for row in rows for line in _lines(row)])
    for who, why in view.failures:
        click.echo(f"{colored('✗', 'red')} {who}: {why}")
    click.echo(f"{counted(len(rows), 'setting')} of {len(view.rows)}")


def _lines(row: SettingRow) -> list[list[object]]:
    """One for all services, unless they have different values."""
    mark = f"{row.name} ≠" if row.differs else row.name
    return [
        [row.role, mark, one.value or "-", one.source, ", ".join(services)]
        for one, services in row.alike
    ]


def _as_fields(row: SettingRow) -> dict[str, object]:
    at = [one._asdict() for one in row.at]
    return {"role": row.role, "name": row.name, "differs": row.differs, "at": at}
