"""Whose topics and groups are: the options that name an owner, and how it is shown."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.output import table

Owned = TypeVar("Owned", bound=admin.Topic | admin.Group)
_HELP = "Team that it belongs to: 1 to 64 letters, digits, and . - _ @ +."
owner_option = click.option("--owner", metavar="TEAM", help=_HELP)
new_owner_option = click.option("--owner", metavar="TEAM", help=f"{_HELP} '' clears it.")
owned_by_option = click.option(
    "--owner", metavar="TEAM", help="List only what belongs to this team; '': what has no owner."
)


def owned_by(found: Iterable[Owned], owner: str | None) -> list[Owned]:
    """`owner`: as the option has it; None: all."""
    return [one for one in found if owner is None or one.owner == owner]


def owner_text(owner: str) -> str:
    """To follow other settings."""
    return f", owner {owner}" if owner else ""


def owned_table(
    headings: Sequence[str], found: Sequence[Owned], row: Callable[[Owned], Sequence[object]]
) -> None:
    """With a column for the owner, if any has one."""
    if any(one.owner for one in found):
        table([*headings, "OWNER"], [(*row(one), one.owner or "-") for one in found])
    else:
        table(headings, [row(one) for one in found])
