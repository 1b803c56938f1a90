"""popmq group: create, change, list, show, delete consumer groups."""

from collections.abc import Sequence

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.catalog.owner import (
    new_owner_option,
    owned_by,
    owned_by_option,
    owned_table,
    owner_option,
    owner_text,
)
from popmq_cli.catalog.reset_offset import reset_offset
from popmq_cli.catalog.retry_policy import policy_option
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import group_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import confirm, document, fields, table
from popmq_cli.shell.parameters import Duration, Number, StartAt, StartType
from popmq_common.words import counted
from popmq_readings.retry_policies import policy_text
from popmq_readings.times import duration_text

_ATTEMPTS = "After this many counted deliveries a message becomes a dead letter."
_HAND_OUTS = (
    "A message that is given back uncounted becomes a dead letter after this many deliveries."
)
access_lock_option = click.option(
    "--access-lock",
    "lock_hold_ms",
    type=Duration(),
    help="Let one pulling consumer at a time read a queue. If it is silent for this time, it loses "
    "it. 0: off.",
)


@click.group(cls=CommandGroup)
def group() -> None:
    """Create, change, list, show and delete consumer groups."""


@group.command()
@click.argument("name")
@click.option("--fifo", is_flag=True, help="Consume messages of one message group in order.")
@click.option(
    "--max-attempts",
    type=Number(1),
    default=16,
    show_default=True,
    help=_ATTEMPTS,
)
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="last",
    show_default=True,
    help="Where it starts: last, at what is sent after its first receive; first, at the oldest "
    "message; or at a time.",
)
@click.option("--max-hand-outs", type=Number(1), help=f"{_HAND_OUTS}  [default: 1000]")
@access_lock_option
@policy_option
@owner_option
@client_options
@running
async def create(
    name: str,
    fifo: bool,
    max_attempts: int,
    start: StartAt,
    max_hand_outs: int | None,
    lock_hold_ms: int | None,
    retry_policy: admin.RetryPolicy | None,
    owner: str | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create the consumer group NAME on every broker.

    By default the group gets messages that are sent after its first receive; with --from first it
    also gets those sent before. If the group exists with other settings, the command is refused:
    use `popmq group set`.
    """
    wanted = admin.Group(
        name=name,
        fifo=fifo,
        max_attempts=max_attempts,
        max_hand_outs=max_hand_outs,
        retry_policy=retry_policy,
        lock_hold_ms=lock_hold_ms or 0,
        owner=owner or "",
    )
    start.put_into(wanted)
    async with AdminClient(endpoint) as stub:
        request = admin.CreateGroupRequest(group=wanted)
        response = await stub.CreateGroup(request, timeout=TIMEOUT_S)
    if as_json:
        brokers = list(response.brokers)
        document({"group": fields(wanted), "brokers": brokers, "existed": response.existed})
        return
    _tell(wanted, response.brokers, " already" if response.existed else "")


@group.command("set")
@click.argument("name", shell_complete=group_names)
@click.option(
    "--fifo/--no-fifo",
    default=None,
    help="Consume in order or not. The group must hold no messages when this changes.",
)
@click.option("--max-attempts", type=Number(1), help=_ATTEMPTS)
@click.option(
    "--from", "start", type=StartType(), help="Where it starts in topics it has not read yet."
)
@click.option("--max-hand-outs", type=Number(1), help=_HAND_OUTS)
@access_lock_option
@policy_option
@new_owner_option
@client_options
@running
async def set_group(
    name: str,
    fifo: bool | None,
    max_attempts: int | None,
    start: StartAt | None,
    max_hand_outs: int | None,
    lock_hold_ms: int | None,
    retry_policy: admin.RetryPolicy | None,
    owner: str | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Change settings of the consumer group NAME.

    Settings that are not given stay as they are.
    """
    request = admin.UpdateGroupRequest(
        name=name,
        fifo=fifo,
        max_attempts=max_attempts,
        max_hand_outs=max_hand_outs,
        retry_policy=retry_policy,
        lock_hold_ms=lock_hold_ms,
        owner=owner,
    )
    if start is not None:
        start.put_into(request)
    async with AdminClient(endpoint) as stub:
        response = await stub.UpdateGroup(request, timeout=TIMEOUT_S)
    if as_json:
        document({"group": fields(response.group), "brokers": list(response.brokers)})
        return
    _tell(response.group, response.brokers)


def _start_text(found: admin.Group) -> str:
    return str(StartAt(found.consume_from, found.consume_from_ms))


def _tell(found: admin.Group, brokers: Sequence[str], before: str = "") -> None:
    settings = f"{counted(found.max_attempts, 'attempt')}, starts at {_start_text(found)}"
    if found.fifo:
        settings = f"in order, {settings}"
    settings += owner_text(found.owner)
    click.echo(f"Group {found.name} ({settings}) is on {', '.join(brokers)}{before}.")


@group.command("list")
@owned_by_option
@client_options
@running
async def list_groups(owner: str | None, endpoint: str, as_json: bool) -> None:
    """List the consumer groups."""
    async with AdminClient(endpoint) as stub:
        response = await stub.ListGroups(admin.ListGroupsRequest(), timeout=TIMEOUT_S)
    groups = owned_by(response.groups, owner)
    if as_json:
        document([fields(found) for found in groups])
        return
    owned_table(["GROUP", "FIFO", "ATTEMPTS", "FROM"], groups, _row)


def _row(found: admin.Group) -> tuple[object, ...]:
    in_order = "yes" if found.fifo else "no"
    return found.name, in_order, found.max_attempts, found.consume_from.lower()


@group.command()
@click.argument("name", shell_complete=group_names)
@client_options
@running
async def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show settings, offsets and lag of the consumer group NAME."""
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeGroupRequest(name=name)
        response = await stub.DescribeGroup(request, timeout=TIMEOUT_S)
    if as_json:
        document(fields(response))
        return
    found = response.group
    attempts = counted(found.max_attempts, "attempt")
    click.echo(f"{found.name}: {attempts}, starts at {_start_text(found)}")
    if found.owner:
        click.echo(f"Owner: {found.owner}")
    click.echo(f"Retries after {policy_text(found.retry_policy)}.")
    if found.HasField("max_hand_outs"):
        often = counted(found.max_hand_outs, "hand-out")
        click.echo(f"A message that is given back uncounted is dead-lettered after {often}.")
    headings = ["BROKER", "TOPIC", "QUEUE", "FIRST", "COMMITTED", "NEXT", "IN FLIGHT", "LAG"]
    headings.append("EXPIRED")
    if found.lock_hold_ms:
        hold = duration_text(found.lock_hold_ms)
        click.echo(f"Access lock: a silent consumer keeps a queue that it pulls for {hold}.")
    if found.lock_hold_ms or any(queue.locked_by for queue in response.queues):
        headings.append("PULLED BY")
    rows = [
        (
            queue.broker,
            queue.topic,
            queue.queue_id,
            queue.min_offset,
            queue.committed_offset,
            queue.max_offset,
            queue.in_flight,
            queue.lag,
            queue.expired,
            queue.locked_by or "-",
        )[: len(headings)]
        for queue in response.queues
    ]
    table(headings, rows)


@group.command()
@click.argument("name", shell_complete=group_names)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the consumer group NAME and its offsets."""
    confirm(f"Delete group {name} and its offsets?", yes=yes)
    async with AdminClient(endpoint) as stub:
        await stub.DeleteGroup(admin.DeleteGroupRequest(name=name), timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name})
    else:
        click.echo(f"Group {name} is deleted.")


group.add_command(reset_offset)
