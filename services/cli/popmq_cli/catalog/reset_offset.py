"""popmq group reset-offset: a group goes on elsewhere."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import group_names, topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.message_lookup import broker_of
from popmq_cli.shell.output import confirm, document, fields, table
from popmq_cli.shell.parameters import OFFSET, QueueRef, QueueType, Time
from popmq_common.words import counted


@click.command("reset-offset", cls=Command)
@click.argument("group", shell_complete=group_names)
@click.argument("topic", shell_complete=topic_names)
@click.option("--to-earliest", is_flag=True, help="To the oldest message there is.")
@click.option("--to-latest", is_flag=True, help="To messages that are sent from now on.")
@click.option(
    "--to-time",
    type=Time(),
    help="To messages stored since this time: 2h (ago), 2026-11-21T19:30:00Z.",
)
@click.option("--to-offset", type=OFFSET, help="To this offset; needs --queue.")
@click.option(
    "--queue",
    type=QueueType(),
    help="Only this queue: 0, or broker-a:0 where several brokers have one.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def reset_offset(
    group: str,
    topic: str,
    to_earliest: bool,
    to_latest: bool,
    to_time: int | None,
    to_offset: int | None,
    queue: QueueRef | None,
    dry_run: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Move the consumer group GROUP to another offset in TOPIC.

    The group's leases end: acks with their handles are refused, and messages before the new offset
    are not redelivered. Without --queue, messages that wait for a retry are
    dropped, so the group gets exactly the messages from the new offsets on.
    """
    request = admin.ResetOffsetsRequest(group=group, topic=topic, dry_run=True)
    _set_target(request, to_earliest, to_latest, to_time, to_offset)
    async with AdminClient(endpoint) as stub:
        if queue is not None:
            request.broker = await broker_of(stub, topic, queue)
            request.queue_id = queue.queue_id
        planned = await stub.ResetOffsets(request, timeout=TIMEOUT_S)
        if dry_run or not (yes or as_json):
            _show(planned, as_json=as_json)
        if dry_run:
            return
        confirm(f"Reset group {group} in topic {topic}?", yes=yes)
        request.dry_run = False
        done = await stub.ResetOffsets(request, timeout=TIMEOUT_S)
    if yes or as_json:
        _show(done, as_json=as_json)
    else:
        click.echo("Done.")


def _set_target(
    request: admin.ResetOffsetsRequest,
    to_earliest: bool,
    to_latest: bool,
    to_time: int | None,
    to_offset: int | None,
) -> None:
    given = [to_earliest, to_latest, to_time is not None, to_offset is not None]
    if sum(given) != 1:
        text = "say where: one of --to-earliest, --to-latest, --to-time and --to-offset"
        raise click.UsageError(text)
    if to_earliest:
        request.earliest = True
    elif to_latest:
        request.latest = True
    elif to_time is not None:
        request.time_ms = to_time
    elif to_offset is not None:
        request.offset = to_offset


def _show(response: admin.ResetOffsetsResponse, *, as_json: bool) -> None:
    if as_json:
        document(fields(response))
        return
    rows = [
        (
            queue.broker,
            queue.queue_id,
            queue.from_offset,
            queue.to_offset,
            queue.to_offset - queue.from_offset,
            queue.fenced,
        )
        for queue in response.queues
    ]
    table(["BROKER", "QUEUE", "FROM", "TO", "CHANGE", "FENCED"], rows)
    if response.retries_dropped:
        count = counted(response.retries_dropped, "message")
        click.echo(f"Dropped: {count} waiting for a retry.")
