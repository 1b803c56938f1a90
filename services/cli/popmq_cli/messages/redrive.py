"""popmq dlq redrive, popmq dlq purge: send dead letters again, or delete them."""

import asyncio
import sys
import time
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import group_names, topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.message_lookup import id_of_dead_letter
from popmq_cli.shell.output import confirm, document, fail, table
from popmq_cli.shell.parameters import MessagePosition, MessageType, Number, Time
from popmq_common.words import counted

PAGE = 100


def filter_options(command: Any) -> Any:
    """--reason, --topic and --id: which dead letters are meant."""
    command = click.option(
        "--id",
        "wanted_id",
        type=MessageType(),
        default="",
        metavar="MESSAGE",
        help="Only this message: its message id, or 0:OFFSET or BROKER:0:OFFSET.",
    )(command)
    command = click.option(
        "--topic",
        default="",
        metavar="TOPIC",
        shell_complete=topic_names,
        help="Only messages that were sent to this topic.",
    )(command)
    return click.option(
        "--reason", default="", metavar="TEXT", help="Only messages whose reason contains this."
    )(command)


@click.command(cls=Command)
@click.argument("group", shell_complete=group_names)
@filter_options
@click.option("--all", "everything", is_flag=True, help="All dead letters of the group.")
@click.option(
    "--only-this-group/--to-topic",
    "only_group",
    default=True,
    help="Deliver them to GROUP alone (default), or to every group of the topic.",
)
@click.option("--dry-run", is_flag=True, help="Show how many would be sent; send nothing.")
@click.option("--limit", type=Number(1), help="Send at most this many.  [default: no limit]")
@click.option(
    "--per-second", type=Number(1), help="Send at most this many a second.  [default: no limit]"
)
@client_options
@running
async def redrive(
    group: str,
    reason: str,
    topic: str,
    wanted_id: str | MessagePosition,
    everything: bool,
    only_group: bool,
    dry_run: bool,
    limit: int | None,
    per_second: int | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send dead letters of GROUP again, each of them once.

    Only GROUP receives them, with attempts counted from 1 again. With --to-topic they become new
    messages of their topic, and every group of the topic receives them.

    The command can be interrupted and repeated: a dead letter that was sent is marked and not sent
    again. Exit code 1: some were left, because their topic is gone or GROUP consumes in order.
    """
    if everything == bool(reason or topic or wanted_id):
        raise click.UsageError("say which: either --all, or some of --reason, --topic and --id")
    async with AdminClient(endpoint) as stub:
        message_id = await id_of_dead_letter(stub, group, wanted_id)
        wanted = admin.DeadLetterFilter(reason=reason, topic=topic, message_id=message_id)
        which = admin.RedriveDeadLettersRequest(group=group, filter=wanted)
        request = admin.RedriveRequest(which=which, to_topic=not only_group, dry_run=dry_run)
        total = await _redrive(stub, request, limit, None if dry_run else per_second)
    _tell(total, request, as_json=as_json)


async def _redrive(
    stub: "admin_grpc.AdminAsyncStub",
    request: admin.RedriveRequest,
    limit: int | None,
    per_second: int | None,
) -> admin.RedriveDeadLettersResponse:
    """Page after page; the sums, and a cursor if the limit was reached before the end."""
    total, began_s = admin.RedriveDeadLettersResponse(), time.monotonic()
    page = PAGE if per_second is None else min(PAGE, per_second)
    while True:
        if per_second is not None:
            await asyncio.sleep(began_s + total.sent / per_second - time.monotonic())
        request.which.cursor = total.cursor
        request.which.count_max = page if limit is None else min(page, limit - total.sent)
        done = await stub.Redrive(request, timeout=TIMEOUT_S)
        total.sent += done.sent
        total.already += done.already
        total.without_topic += done.without_topic
        total.in_order += done.in_order
        total.cursor = done.cursor
        if sys.stderr.isatty():
            click.echo(f"\r{total.sent} sent …", nl=False, err=True)
        if not done.cursor or (limit is not None and total.sent >= limit):
            return total


def _tell(
    total: admin.RedriveDeadLettersResponse, request: admin.RedriveRequest, *, as_json: bool
) -> None:
    group = request.which.group
    if sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    if as_json:
        document(
            {
                "sent": total.sent,
                "already": total.already,
                "withoutTopic": total.without_topic,
                "inOrder": total.in_order,
                "to": "topic" if request.to_topic else "group",
                "dryRun": request.dry_run,
                "more": bool(total.cursor),
            }
        )
    else:
        topics = "its topic" if total.sent == 1 else "their topics"
        where = topics if request.to_topic else f"group {group} alone"
        what = "would be sent" if request.dry_run else "sent"
        click.echo(
            f"{counted(total.sent, 'dead letter')} {what} to {where}; "
            f"{total.already} had been sent before."
        )
    if total.in_order:
        fail(
            f"{_left(total.in_order)}: group {group} consumes in order, so they cannot be sent "
            "to it alone; --to-topic sends them to their topics, where every group receives them"
        )
    if total.without_topic:
        fail(f"{_left(total.without_topic)}: the topic is gone or takes no messages")


def _left(count: int) -> str:
    return f"{counted(count, 'dead letter')} {'was' if count == 1 else 'were'} left"


@click.command(cls=Command)
@click.argument("group", shell_complete=group_names)
@click.option("--all", "everything", is_flag=True, help="All dead letters there are now.")
@click.option(
    "--before",
    "before_ms",
    type=Time(),
    help="Those that became dead letters before this time: 7d (ago), 2026-11-21T19:30:00Z.",
)
@click.option("--dry-run", is_flag=True, help="Show how many would be deleted; delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@client_options
@running
async def purge(
    group: str,
    everything: bool,
    before_ms: int | None,
    dry_run: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Delete dead letters of GROUP that nobody needs any more.

    Purged messages are no longer listed or counted and cannot be sent again. Messages that become
    dead letters while the command asks for confirmation are kept. Disk space is freed by retention.
    """
    if everything == (before_ms is not None):
        raise click.UsageError("say which: either --all or --before TIME")
    request = admin.PurgeDeadLettersRequest(group=group, before_ms=before_ms or 0, dry_run=True)
    async with AdminClient(endpoint) as stub:
        planned = await stub.PurgeDeadLetters(request, timeout=TIMEOUT_S)
        count = sum(queue.count for queue in planned.queues)
        if not dry_run and count:
            if not yes:
                if not as_json:
                    _show(planned)
                confirm(f"Delete {counted(count, 'dead letter')} of {group}?", yes=False)
            request.dry_run = False
            request.until.extend(planned.queues)
            planned = await stub.PurgeDeadLetters(request, timeout=TIMEOUT_S)
    if as_json:
        queues = [
            {"broker": queue.broker, "count": queue.count, "sentAgain": queue.redriven}
            for queue in planned.queues
        ]
        document({"group": group, "queues": queues, "dryRun": dry_run})
    elif dry_run:
        _show(planned)
    else:
        deleted = sum(queue.count for queue in planned.queues)
        click.echo(f"Deleted {counted(deleted, 'dead letter')}.")


def _show(planned: admin.PurgeDeadLettersResponse) -> None:
    rows = [(queue.broker, queue.count, queue.redriven) for queue in planned.queues]
    table(["BROKER", "DEAD LETTERS", "SENT AGAIN"], rows)
