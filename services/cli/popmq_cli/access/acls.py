"""popmq acl: entries of policies written, deleted and listed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.acl_files import export, import_file
from popmq_cli.access.decision import test
from popmq_cli.access.options import ActionList, addresses, all_of, resources, tell_missing
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import user_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import confirm, document, fields, table
from popmq_common.words import counted
from popmq_readings.access_words import subject_text

POLICIES: Final = ["Custom", "Default"]


@click.group(cls=CommandGroup)
def acl() -> None:
    """Say what users may do; test a decision; import RocketMQ's files."""


_POLICY = click.Choice(POLICIES, case_sensitive=False)
_ENTRY: Final = [
    click.argument("subject", shell_complete=user_names),
    click.option(
        "--resource",
        "names",
        multiple=True,
        required=True,
        metavar="RESOURCE",
        shell_complete=resources,
        help="Topic:NAME, Topic:PREFIX*, Topic:*, or * for everything. Repeatable.",
    ),
    click.option(
        "--action",
        "actions",
        multiple=True,
        required=True,
        type=ActionList(),
        help="Pub (send), Sub (receive), Create, Update, Delete, Get, List, All; several: Pub,Sub.",
    ),
    click.option(
        "--decision",
        required=True,
        type=click.Choice(["allow", "deny"], case_sensitive=False),
        metavar="allow|deny",
        help="Whether the user may do that.",
    ),
    click.option(
        "--source-ip",
        "source_ips",
        multiple=True,
        metavar="ADDRESS",
        help="Only from this address or CIDR range. Repeatable.  [default: anywhere]",
    ),
    click.option(
        "--policy",
        type=_POLICY,
        default="Custom",
        show_default=True,
        metavar="custom|default",
        help="Default applies only if no entry of Custom matches.",
    ),
]


def _entry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_ENTRY):
        command = option(command)
    return command


@acl.command()
@_entry_options
@client_options
@running
async def create(subject: str, endpoint: str, as_json: bool, **entry: Any) -> None:
    """Add entries for resources to the policies of SUBJECT.

    SUBJECT is a user: alice or User:alice. RESOURCE is Topic:NAME, Group:NAME, Cluster:NAME or
    Namespace:NAME. Topic:shop_* stands for all topics whose names begin with shop_. If an entry for
    the resource exists, the command fails: use `popmq acl update`. What no entry allows is denied.
    """
    await _put(endpoint, _request(subject, only_new=True, **entry), as_json=as_json)


@acl.command()
@_entry_options
@client_options
@running
async def update(subject: str, endpoint: str, as_json: bool, **entry: Any) -> None:
    """Replace entries for resources in the policies of SUBJECT.

    If there is no entry for a resource, one is added. Entries for other resources stay as they are.
    The options are those of `popmq acl create`.
    """
    await _put(endpoint, _request(subject, only_new=False, **entry), as_json=as_json)


def _request(
    subject: str,
    *,
    names: Sequence[str],
    actions: Sequence[Sequence[str]],
    decision: str,
    source_ips: Sequence[str],
    policy: str,
    only_new: bool,
) -> admin.PutAclRequest:
    entries = [
        admin.AclEntry(
            resource=name,
            actions=all_of(actions),
            source_ips=addresses(source_ips),
            decision=decision.capitalize(),
        )
        for name in names
    ]
    return admin.PutAclRequest(
        subject=subject, policy_type=policy, entries=entries, only_new=only_new
    )


async def _put(endpoint: str, request: admin.PutAclRequest, *, as_json: bool) -> None:
    async with AdminClient(endpoint) as stub:
        response = await stub.PutAcl(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
        return
    first = request.entries[0]
    verb = "may" if first.decision == "Allow" else "may not"
    names = ", ".join(one.resource for one in request.entries)
    place = f" from {', '.join(first.source_ips)}" if first.source_ips else ""
    last = ", if no entry of Custom matches" if request.policy_type == "Default" else ""
    subject = subject_text(request.subject)
    click.echo(f"{subject} {verb} {', '.join(first.actions)} at {names}{place}{last}.")
    tell_missing(response.missing_brokers)


@acl.command()
@click.argument("subject", shell_complete=user_names)
@click.option(
    "--resource",
    default="",
    metavar="RESOURCE",
    shell_complete=resources,
    help="Only the entry for this resource, as `popmq acl list` shows it.  [default: all]",
)
@click.option(
    "--policy",
    type=_POLICY,
    default=None,
    metavar="custom|default",
    help="Only entries of this policy.  [default: both]",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def delete(
    subject: str, resource: str, policy: str | None, yes: bool, endpoint: str, as_json: bool
) -> None:
    """Delete entries of the policies of SUBJECT.

    Without options, all entries are deleted. What only they allowed is denied from then on; what
    they denied may now be allowed by others.
    """
    shown, of_policy = subject_text(subject), f" of policy {policy}" if policy else ""
    what = f"the entries for {resource}" if resource else "all entries"
    confirm(f"Delete {what}{of_policy} of {shown}?", yes=yes)
    request = admin.DeleteAclRequest(subject=subject, policy_type=policy or "", resource=resource)
    async with AdminClient(endpoint) as stub:
        response = await stub.DeleteAcl(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
        return
    are = "is" if response.entries == 1 else "are"
    count = counted(response.entries, "entry", "entries")
    click.echo(f"{count} of {shown} {are} deleted.")
    tell_missing(response.missing_brokers)


@acl.command("list")
@click.argument("subject", default="", shell_complete=user_names)
@click.option(
    "--resource", default="", metavar="TEXT", help="Only entries whose resource contains this."
)
@client_options
@running
async def list_acls(subject: str, resource: str, endpoint: str, as_json: bool) -> None:
    """List the entries of all users, or of SUBJECT."""
    async with AdminClient(endpoint) as stub:
        request = admin.ListAclsRequest(subject=subject, resource=resource)
        response = await stub.ListAcls(request, timeout=TIMEOUT_S)
    if as_json:
        document([fields(one) for one in response.acls])
        return
    rows = [row for one in response.acls for row in _rows(one)]
    table(["SUBJECT", "POLICY", "RESOURCE", "ACTIONS", "DECISION", "FROM"], rows)


def _rows(found: admin.Acl) -> Iterator[tuple[str, ...]]:
    for policy in found.policies:
        for one in policy.entries:
            place = ", ".join(one.source_ips) or "anywhere"
            actions = ",".join(one.actions)
            yield found.subject, policy.type, one.resource, actions, one.decision, place


for _command in (test, export, import_file):
    acl.add_command(_command)
