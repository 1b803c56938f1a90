"""popmq message peek: a topic looked through by tag or SQL, without receiving anything."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document, fields, note, table
from popmq_cli.shell.parameters import Number
from popmq_common.words import counted
from popmq_readings.bodies import body_text
from popmq_readings.times import moment

BODY_SHOWN = 48
HEADINGS = ["STORED", "PLACE", "MESSAGE ID", "TAG", "BODY"]


@click.command("peek", cls=Command)
@click.argument("topic", shell_complete=topic_names)
@click.option("--sql", default="", metavar="SQL", help="Filter over properties: price > 10.")
@click.option("--tag", default="", metavar="TAG", help="Tags: 'new || paid'.")
@click.option("--oldest", is_flag=True, help="Begin with the oldest, not the newest.")
@click.option(
    "--limit", type=Number(1, 100), default=25, show_default=True, help="Show at most this many."
)
@click.option(
    "--scan",
    type=Number(1, 10_000),
    default=1_000,
    show_default=True,
    help="Look at no more than this many messages of each queue.",
)
@client_options
@running
async def peek(
    topic: str,
    sql: str,
    tag: str,
    oldest: bool,
    limit: int,
    scan: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Look at messages of TOPIC, the newest first. Nothing is received."""
    if sql and tag:
        raise click.UsageError("filter by --tag or by --sql, not by both")
    found: list[admin.StoredMessage] = []
    scanned, more = 0, False
    async with AdminClient(endpoint) as stub:
        request = admin.DescribeTopicRequest(name=topic)
        described = await stub.DescribeTopic(request, timeout=TIMEOUT_S)
        for queue in described.queues:
            wanted = admin.PeekMessagesRequest(
                topic=topic,
                broker=queue.broker,
                queue_id=queue.queue_id,
                offset=queue.min_offset if oldest else queue.max_offset,
                backwards=not oldest,
                sql=sql,
                tag=tag,
                count_max=limit,
                scanned_max=scan,
            )
            page = await stub.PeekMessages(wanted, timeout=TIMEOUT_S)
            found += page.messages
            scanned, more = scanned + page.scanned, more or page.more
    found.sort(key=lambda one: (one.stored_ms, one.log_offset), reverse=not oldest)
    more, found = more or len(found) > limit, found[:limit]
    if as_json:
        document({"messages": [fields(one) for one in found], "scanned": scanned, "more": more})
        return
    table(HEADINGS, [_row(one) for one in found])
    rest = "; there are more" if more else ""
    note(f"{counted(len(found), 'message')} of {scanned} looked at{rest}.")


def _row(one: admin.StoredMessage) -> list[object]:
    text = body_text(one.body, cut=one.body_bytes > len(one.body))
    shown = one.body[: BODY_SHOWN // 3].hex(" ") if text is None else " ".join(text.split())
    place = f"{one.broker}:{one.queue_id}:{one.offset}"
    return [moment(one.stored_ms), place, one.message_id, one.tag, shown[:BODY_SHOWN]]
