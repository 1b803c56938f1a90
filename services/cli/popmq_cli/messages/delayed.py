"""popmq message delayed: what waits for its time, without receiving it."""

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.output import document, fields, note, table
from popmq_cli.shell.parameters import Number
from popmq_common.words import counted
from popmq_readings.times import moment

LIMIT_MAX = 10_000
PAGE_MAX = 200
PAGES_MAX = 500
"""Of messages of other topics that are looked through."""
HEADINGS = ["DUE", "MESSAGE ID", "TOPIC", "TAG", "KEYS", "RECALL HANDLE"]


@click.command("delayed", cls=Command)
@click.argument("topic", required=False, default="", shell_complete=topic_names)
@click.option(
    "--limit",
    type=Number(1, LIMIT_MAX),
    default=50,
    show_default=True,
    help="Show at most this many.",
)
@client_options
@running
async def delayed(topic: str, limit: int, endpoint: str, as_json: bool) -> None:
    """List delayed messages that wait for their time, those that are due first first.

    Without TOPIC: of all topics. popmq recall TOPIC HANDLE takes one back.
    """
    found: list[admin.DelayedMessage] = []
    cursor, pages, by_level = "", 0, 0
    async with AdminClient(endpoint) as stub:
        while len(found) < limit and pages < PAGES_MAX:
            request = admin.ListDelayedRequest(
                topic=topic, cursor=cursor, count_max=min(PAGE_MAX, limit - len(found))
            )
            page = await stub.ListDelayed(request, timeout=TIMEOUT_S)
            found += page.messages
            cursor, by_level, pages = page.cursor, page.by_level, pages + 1
            if not cursor:
                break
    if as_json:
        told = [fields(one) for one in found]
        document({"messages": told, "more": bool(cursor), "byLevel": by_level})
        return
    table(HEADINGS, [_row(one) for one in found])
    if cursor:
        note("There may be more: --limit")
    if by_level:
        waits = counted(by_level, "message")
        note(f"{waits} by one of RocketMQ's delay levels are not listed.")


def _row(one: admin.DelayedMessage) -> list[object]:
    keys = " ".join(one.keys)
    return [moment(one.due_ms), one.message_id, one.topic, one.tag, keys, one.recall_handle]
