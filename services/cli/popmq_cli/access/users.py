"""popmq user: create, change, rotate, delete, list."""

from typing import Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.options import new_secret_option, tell_missing
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import user_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import confirm, document, fields, note, table
from popmq_cli.shell.parameters import Duration
from popmq_readings.times import moment

USER_TYPES: Final = ["SUPER", "NORMAL"]
SHOWN_ONCE: Final = "Keep it now: it is not shown again."


@click.group(cls=CommandGroup)
def user() -> None:
    """Create, change, list and delete users; replace their secrets."""


@user.command()
@click.argument("name")
@click.option(
    "--super", "is_super", is_flag=True, help="The user may do everything; no policy applies."
)
@new_secret_option
@click.option("--no-secret", is_flag=True, help="For a user who has a client certificate instead.")
@client_options
@running
async def create(
    name: str, is_super: bool, secret: str | None, no_secret: bool, endpoint: str, as_json: bool
) -> None:
    """Create the user NAME. The name is also the access key.

    A new user may do nothing until a policy allows it: see `popmq acl create`. Without
    --new-secret-file the server makes a secret. It is printed once and never shown again.
    """
    if no_secret and secret is not None:
        raise click.UsageError("say one: --new-secret-file or --no-secret")
    request = admin.CreateUserRequest(
        username=name,
        type="SUPER" if is_super else "NORMAL",
        secret=secret or "",
        no_secret=no_secret,
    )
    async with AdminClient(endpoint) as stub:
        response = await stub.CreateUser(request, timeout=TIMEOUT_S)
    _show(response, f"User {name} ({response.user.type}) is created.", as_json=as_json)


@user.command()
@click.argument("name", shell_complete=user_names)
@click.option(
    "--type",
    "user_type",
    type=click.Choice(USER_TYPES, case_sensitive=False),
    metavar="|".join(USER_TYPES),
    help="SUPER may do everything; NORMAL may do what policies allow.",
)
@click.option(
    "--enable/--disable", "enabled", default=None, help="Accept or refuse requests of this user."
)
@new_secret_option
@client_options
@running
async def update(
    name: str,
    user_type: str | None,
    enabled: bool | None,
    secret: str | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Change the user NAME.

    Settings that you do not name stay as they are. A new secret replaces all old ones at once. To
    keep the old one valid for a while, use `popmq user rotate`.
    """
    if user_type is None and enabled is None and secret is None:
        text = "say what to change: --type, --enable, --disable or --new-secret-file"
        raise click.UsageError(text)
    request = admin.UpdateUserRequest(
        username=name, type=(user_type or "").upper(), secret=secret or ""
    )
    if enabled is not None:
        request.status = "ENABLED" if enabled else "DISABLED"
    async with AdminClient(endpoint) as stub:
        response = await stub.UpdateUser(request, timeout=TIMEOUT_S)
    found = response.user
    text = f"User {name} is {found.type} and {found.status}"
    _show(response, text + (", with a new secret." if secret else "."), as_json=as_json)


@user.command()
@click.argument("name", shell_complete=user_names)
@click.option(
    "--old-valid-for",
    type=Duration(min_ms=1),
    help="How long the old secret stays valid.  [default: until --drop-old]",
)
@new_secret_option
@click.option(
    "--drop-old", is_flag=True, help="End the older of two secrets now. Makes no new one."
)
@client_options
@running
async def rotate(
    name: str,
    old_valid_for: int | None,
    secret: str | None,
    drop_old: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Give the user NAME a second secret beside the present one.

    Both are valid, so you can change clients one by one. Afterwards run the command again with
    --drop-old, or set an end in advance with --old-valid-for. Without --new-secret-file the server
    makes the new secret, which is printed once.
    """
    if drop_old and (secret is not None or old_valid_for is not None):
        raise click.UsageError("--drop-old takes neither --new-secret-file nor --old-valid-for")
    request = admin.RotateUserRequest(
        username=name, secret=secret or "", drop_old=drop_old, old_valid_ms=old_valid_for or 0
    )
    async with AdminClient(endpoint) as stub:
        response = await stub.RotateUser(request, timeout=TIMEOUT_S)
    if drop_old:
        text = f"User {name} has only the newest secret now."
    else:
        text = f"User {name} has a new secret.{_old_until(response.user)}"
    _show(response, text, as_json=as_json)


def _old_until(found: admin.User) -> str:
    if found.secrets < 2:
        return ""
    if found.old_until_ms:
        return f" The old one is valid until {moment(found.old_until_ms)}."
    return f" The old one is valid until: popmq user rotate {found.username} --drop-old"


@user.command()
@click.argument("name", shell_complete=user_names)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the user NAME and all policies of the user."""
    confirm(f"Delete user {name} and all policies of the user?", yes=yes)
    async with AdminClient(endpoint) as stub:
        request = admin.DeleteUserRequest(username=name)
        response = await stub.DeleteUser(request, timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name, **fields(response)})
        return
    click.echo(f"User {name} is deleted.")
    tell_missing(response.missing_brokers)


@user.command("list")
@click.option("--filter", "part", default="", metavar="TEXT", help="Only names that contain this.")
@client_options
@running
async def list_users(part: str, endpoint: str, as_json: bool) -> None:
    """List the users; their secrets are never shown."""
    async with AdminClient(endpoint) as stub:
        response = await stub.ListUsers(admin.ListUsersRequest(filter=part), timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
        return
    rows = [
        (one.username, one.type, one.status, one.secrets, _old_end(one)) for one in response.users
    ]
    table(["USER", "TYPE", "STATUS", "SECRETS", "OLD UNTIL"], rows)
    tell_missing(response.missing_brokers)
    if not response.authentication:
        note("Nobody needs to be a user at this server: authentication is off.")
    elif not response.authorization:
        note("Every user may do everything at this server: authorization is off.")


def _old_end(found: admin.User) -> str:
    if found.secrets < 2:
        return "-"
    return moment(found.old_until_ms) if found.old_until_ms else "dropped"


def _show(response: admin.UserResponse, text: str, *, as_json: bool) -> None:
    """A secret that the server made is in the answer once, and goes to stdout alone."""
    if as_json:
        document(fields(response))
        return
    click.echo(text)
    if response.secret:
        click.echo(f"Secret: {response.secret}")
        click.echo(SHOWN_ONCE)
    tell_missing(response.missing_brokers)
