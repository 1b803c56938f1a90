"""popmq group: create, change, list, show, delete consumer groups."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from google.protobuf.json_format import MessageToDict

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.completion import group_names
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, table
from popmq_cli.reset_offset import reset_offset
from popmq_cli.retry_policy import policy_option, policy_text
from popmq_cli.times import point_in_time

hand_outs_option = click.option(
    "--max-hand-outs",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Deliveries, counted or not, before a message that is given back uncounted goes to the "
    "dead letters.  [default: 1000]",
)
access_lock_option = click.option(
    "--access-lock",
    type=float,
    metavar="SECONDS",
    help="Consumers that pull have a queue one at a time; a silent one for so long. 0: no lock.",
)


@click.group()
def group() -> None:
    """Create, change, list, show and delete consumer groups."""


@group.command()
@click.argument("name")
@click.option("--fifo", is_flag=True, help="Messages of one message group are consumed in order.")
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Deliveries before a message goes to the dead letters.",
)
@click.option(
    "--from",
    "consume_from",
    default="last",
    show_default=True,
    metavar="last|first|TIME",
    help="Where it starts: at messages sent after its first receive, at the oldest, or at those "
    "stored since a time (30m, 2h, 7d ago, ISO 8601, or milliseconds since 1970).",
)
@hand_outs_option
@access_lock_option
@policy_option
@client_options
@running
async def create(
    name: str,
    fifo: bool,
    max_attempts: int,
    consume_from: str,
    max_hand_outs: int | None,
    access_lock: float | None,
    retry_policy: admin.RetryPolicy | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create the consumer group NAME on every broker.

    A group that exists with other settings is refused: `popmq group set` changes it.
    """
    wanted = admin.Group(
        name=name,
        fifo=fifo,
        max_attempts=max_attempts,
        max_hand_outs=max_hand_outs,
        retry_policy=retry_policy,
        lock_hold_ms=int((access_lock or 0) * 1000),
    )
    _start(wanted, consume_from)
    async with AdminClient(endpoint) as stub:
        request = admin.CreateGroupRequest(group=wanted)
        response = await stub.CreateGroup(request, timeout=TIMEOUT_S)
    if as_json:
        shown = MessageToDict(wanted, always_print_fields_with_no_presence=True)
        document({"group": shown, "brokers": list(response.brokers), "existed": response.existed})
        return
    _tell(wanted, response.brokers, " already" if response.existed else "")


@group.command("set")
@click.argument("name", shell_complete=group_names)
@click.option(
    "--fifo/--no-fifo",
    default=None,
    help="Whether it consumes in order; it must hold nothing when that changes.",
)
@click.option(
    "--max-attempts", type=click.IntRange(min=1), help="Deliveries before the dead letters."
)
@click.option("--from", "consume_from", metavar="last|first|TIME", help="Where it starts.")
@hand_outs_option
@access_lock_option
@policy_option
@client_options
@running
async def set_group(
    name: str,
    fifo: bool | None,
    max_attempts: int | None,
    consume_from: str | None,
    max_hand_outs: int | None,
    access_lock: float | None,
    retry_policy: admin.RetryPolicy | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Change settings of the group NAME.

    What is not given stays as it is.
    """
    request = admin.UpdateGroupRequest(
        name=name,
        fifo=fifo,
        max_attempts=max_attempts,
        max_hand_outs=max_hand_outs,
        retry_policy=retry_policy,
    )
    if consume_from is not None:
        _start(request, consume_from)
    if access_lock is not None:
        request.lock_hold_ms = int(access_lock * 1000)
    async with AdminClient(endpoint) as stub:
        response = await stub.UpdateGroup(request, timeout=TIMEOUT_S)
    if as_json:
        shown = MessageToDict(response.group, always_print_fields_with_no_presence=True)
        document({"group": shown, "brokers": list(response.brokers)})
        return
    _tell(response.group, response.brokers)


def _start(wanted: admin.Group | admin.UpdateGroupRequest, text: str) -> None:
    """Raises `click.BadParameter`."""
    wanted.consume_from, wanted.consume_from_ms = text.upper(), 0
    if text not in ("last", "first"):
        now_ms = time.time_ns() // 1_000_000
        wanted.consume_from, wanted.consume_from_ms = "TIME", point_in_time(text, now_ms)


def _start_text(found: admin.Group) -> str:
    if found.consume_from != "TIME":
        return f"the {found.consume_from.lower()} message"
    when = datetime.fromtimestamp(found.consume_from_ms / 1000, UTC)
    return f"messages stored since {when.isoformat(timespec='milliseconds')}"


def _tell(found: admin.Group, brokers: Sequence[str], before: str = "") -> None:
    settings = f"{found.max_attempts} attempts, starts at {_start_text(found)}"
    if found.fifo:
        settings = f"in order, {settings}"
    click.echo(f"Group {found.name} ({settings}) is on {', '.join(brokers)}{before}.")


@group.command("list")
@client_options
@running
async def list_groups(endpoint: str, as_json: bool) -> None:
    """List the consumer groups."""
    async with AdminClient(endpoint) as stub:
        response = await stub.ListGroups(admin.ListGroupsRequest(), timeout=TIMEOUT_S)
    if as_json:
        document([MessageToDict(found) for found in response.groups])
        return
    rows = [
        (found.name, "yes" if found.fifo else "no", found.max_attempts, found.consume_from.lower())
        for found in response.groups
    ]
    table(["GROUP", "FIFO", "ATTEMPTS", "FROM"], rows)


@group.command()
@click.argument("name", shell_complete=group_names)
@client_options
@running
async def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show how far the group NAME is in each queue."""
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeGroupRequest(name=name)
        response = await stub.DescribeGroup(request, timeout=TIMEOUT_S)
    if as_json:
        document(MessageToDict(response, always_print_fields_with_no_presence=True))
        return
    found = response.group
    click.echo(f"{found.name}: {found.max_attempts} attempts, starts at {_start_text(found)}")
    click.echo(f"Retries after {policy_text(found.retry_policy)}.")
    if found.HasField("max_hand_outs"):
        click.echo(f"What is given back uncounted is handed out {found.max_hand_outs} times.")
    headings = ["BROKER", "TOPIC", "QUEUE", "FIRST", "COMMITTED", "NEXT", "IN FLIGHT", "LAG"]
    headings.append("EXPIRED")
    if found.lock_hold_ms:
        hold_s = found.lock_hold_ms / 1000
        click.echo(f"Access lock: a silent consumer keeps a queue that it pulls for {hold_s:g} s.")
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
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
@running
async def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete the group NAME and its place in every queue."""
    if not yes:
        click.confirm(f"Delete group {name} and its place in every queue?", abort=True, err=True)
    async with AdminClient(endpoint) as stub:
        await stub.DeleteGroup(admin.DeleteGroupRequest(name=name), timeout=TIMEOUT_S)
    if as_json:
        document({"deleted": name})
    else:
        click.echo(f"Group {name} is deleted.")


group.add_command(reset_offset)
