"""popmq group reset-offset: a group goes on elsewhere."""

import time

import click
from google.protobuf.json_format import MessageToDict

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.completion import group_names, topic_names
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, table
from popmq_cli.times import point_in_time


@click.command("reset-offset")
@click.argument("group", shell_complete=group_names)
@click.argument("topic", shell_complete=topic_names)
@click.option("--to-earliest", is_flag=True, help="The oldest message there is.")
@click.option("--to-latest", is_flag=True, help="What is sent from now on.")
@click.option(
    "--to-time",
    metavar="TIME",
    help="Messages stored since: 30m, 2h, 7d (ago), ISO 8601, or milliseconds since 1970.",
)
@click.option("--to-offset", type=int, metavar="N", help="That offset; needs --queue.")
@click.option("--queue", metavar="BROKER:ID", help="That queue alone.")
@click.option("--dry-run", is_flag=True, help="Show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
@running
async def reset_offset(
    group: str,
    topic: str,
    to_earliest: bool,
    to_latest: bool,
    to_time: str | None,
    to_offset: int | None,
    queue: str | None,
    dry_run: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Move GROUP to another place in TOPIC, now and once.

    What it holds is fenced: acks of older handles are refused, and what lies before the new offset
    does not come again. Without --queue, messages that wait for another delivery are dropped, so
    that the group gets exactly what lies behind the new offsets.
    """
    request = admin.ResetOffsetsRequest(group=group, topic=topic, dry_run=True)
    _set_target(request, to_earliest, to_latest, to_time, to_offset)
    if queue is not None:
        request.broker, request.queue_id = _queue(queue)
    async with AdminClient(endpoint) as stub:
        planned = await stub.ResetOffsets(request, timeout=TIMEOUT_S)
        if dry_run or not yes:
            _show(planned, as_json=as_json and dry_run)
        if dry_run:
            return
        if not yes:
            click.confirm(f"Reset group {group} in topic {topic}?", abort=True, err=True)
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
    to_time: str | None,
    to_offset: int | None,
) -> None:
    given = [to_earliest, to_latest, to_time is not None, to_offset is not None]
    if sum(given) != 1:
        text = "Say where: one of --to-earliest, --to-latest, --to-time, --to-offset."
        raise click.UsageError(text)
    if to_earliest:
        request.earliest = True
    elif to_latest:
        request.latest = True
    elif to_time is not None:
        request.time_ms = point_in_time(to_time, time.time_ns() // 1_000_000)
    elif to_offset is not None:
        request.offset = to_offset


def _queue(text: str) -> tuple[str, int]:
    broker, _, number = text.rpartition(":")
    if not broker or not number.isdigit():
        raise click.BadParameter(f"{text!r} is no BROKER:ID", param_hint="--queue")
    return broker, int(number)


def _show(response: admin.ResetOffsetsResponse, *, as_json: bool) -> None:
    if as_json:
        document(MessageToDict(response, always_print_fields_with_no_presence=True))
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
        count = response.retries_dropped
        click.echo(f"Dropped: {count} messages that wait for another delivery.")
