"""popmq dlq: list and show what a group gave up."""

from collections.abc import AsyncIterator
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.messages.redrive import filter_options, purge, redrive
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import group_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.message_lookup import dead_letter_at, id_of_dead_letter, no_dead_letter
from popmq_cli.shell.output import document, note, table
from popmq_cli.shell.parameters import MessagePosition, MessageType, Number
from popmq_common.words import counted
from popmq_readings.bodies import body_text
from popmq_readings.times import moment

PAGE = 100
REASON_SHOWN = 60


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show, send again and delete the dead letters of a consumer group."""


@dlq.command("list")
@click.argument("group", shell_complete=group_names)
@filter_options
@click.option(
    "--limit",
    type=Number(0),
    default=PAGE,
    show_default=True,
    help="List at most this many; 0: all.",
)
@click.option(
    "--cursor", default="", metavar="CURSOR", help="Continue where an earlier list stopped."
)
@client_options
@running
async def list_letters(
    group: str,
    reason: str,
    topic: str,
    wanted_id: str | MessagePosition,
    limit: int,
    cursor: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """List the dead letters of a consumer group, oldest first."""
    letters: list[admin.DeadLetter] = []
    async with AdminClient(endpoint) as stub:
        message_id = await id_of_dead_letter(stub, group, wanted_id)
        wanted = admin.DeadLetterFilter(reason=reason, topic=topic, message_id=message_id)
        async for page in _pages(stub, group, wanted, cursor, limit):
            letters += page.letters
            cursor = page.cursor
    if as_json:
        document({"letters": [_fields(letter) for letter in letters], "cursor": cursor})
        return
    rows = [
        (
            letter.message_id,
            letter.topic,
            letter.attempts,
            moment(letter.stored_ms),
            letter.body_bytes,
            "yes" if letter.redriven else "no",
            _cut(letter.reason),
        )
        for letter in letters
    ]
    table(["MESSAGE ID", "TOPIC", "ATTEMPTS", "WHEN", "BYTES", "SENT AGAIN", "REASON"], rows)
    if cursor:
        note(f"More: popmq dlq list {group} --cursor {cursor}")


@dlq.command()
@click.argument("group", shell_complete=group_names)
@click.argument("wanted", metavar="MESSAGE", type=MessageType())
@client_options
@running
async def show(group: str, wanted: str | MessagePosition, endpoint: str, as_json: bool) -> None:
    """Show a dead letter of GROUP: reason, properties and body.

    MESSAGE is its message id, or its place: 0:OFFSET or BROKER:0:OFFSET (dead letters have one
    queue, 0). If several have the id, the newest is shown. A body that is not text is shown only
    with --json; otherwise its size is shown.
    """
    newest: admin.DeadLetter | None = None
    async with AdminClient(endpoint) as stub:
        message_id, at = await _named(stub, group, wanted)
        same_id = admin.DeadLetterFilter(message_id=message_id)
        async for page in _pages(stub, group, same_id, "", 0, whole=True):
            for letter in page.letters:
                there = at is None or (letter.broker, letter.offset) == at
                if there and (newest is None or letter.stored_ms >= newest.stored_ms):
                    newest = letter
    if newest is None:
        no_dead_letter(group, wanted)
    text = body_text(newest.body)
    if as_json:
        body = {"body": text} if text is not None else {"bodyHex": newest.body.hex()}
        document({**_fields(newest), "properties": dict(newest.properties), **body})
        return
    for name, value in _shown(newest).items():
        click.echo(f"{name}: {value}")
    for name, value in sorted(newest.properties.items()):
        click.echo(f"  {name} = {value}")
    click.echo()
    click.echo(
        text if text is not None else f"({counted(newest.body_bytes, 'byte')} that are not text)"
    )


async def _named(
    stub: Any, group: str, wanted: str | MessagePosition
) -> tuple[str, tuple[str, int] | None]:
    """Its message id, and where it is, if that was said."""
    if isinstance(wanted, str):
        return wanted, None
    found = await dead_letter_at(stub, group, wanted)
    if found is None:
        no_dead_letter(group, wanted)
    return found.message_id, (found.broker, found.offset)


async def _pages(
    stub: Any,
    group: str,
    wanted: admin.DeadLetterFilter,
    cursor: str,
    limit: int,
    *,
    whole: bool = False,
) -> AsyncIterator[admin.ListDeadLettersResponse]:
    """Until `limit` dead letters came; 0: until the end."""
    count = 0
    while True:
        request = admin.ListDeadLettersRequest(
            group=group,
            filter=wanted,
            cursor=cursor,
            count_max=min(PAGE, limit - count) if limit else PAGE,
            whole=whole,
        )
        page = await stub.ListDeadLetters(request, timeout=TIMEOUT_S)
        yield page
        count += len(page.letters)
        cursor = page.cursor
        if not cursor or (limit and count >= limit):
            return


def _fields(letter: admin.DeadLetter) -> dict[str, Any]:
    return {
        "messageId": letter.message_id,
        "topic": letter.topic,
        "attempts": letter.attempts,
        "handedOut": letter.handed_out or letter.attempts,
        "reason": letter.reason,
        "storedMs": letter.stored_ms,
        "bodyBytes": letter.body_bytes,
        "redriven": letter.redriven,
        "broker": letter.broker,
        "offset": letter.offset,
    }


def _shown(letter: admin.DeadLetter) -> dict[str, object]:
    return {
        "message id": letter.message_id,
        "topic": letter.topic,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "handed out": letter.handed_out or letter.attempts,
        "since": moment(letter.stored_ms),
        "sent again": "yes" if letter.redriven else "no",
        "broker": letter.broker,
        "offset": letter.offset,
        "bytes": letter.body_bytes,
    }


def _cut(text: str) -> str:
    return text if len(text) <= REASON_SHOWN else text[: REASON_SHOWN - 1] + "…"


dlq.add_command(redrive)
dlq.add_command(purge)
