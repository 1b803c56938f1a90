"""popmq message: look at messages that are stored, without receiving them."""

import sys
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.messages.delayed import delayed
from popmq_cli.messages.peek import peek
from popmq_cli.shell.commands import CommandGroup
from popmq_cli.shell.completion import topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.shell.message_lookup import described, message_at
from popmq_cli.shell.output import document, fail, note, table
from popmq_cli.shell.parameters import MessagePosition, MessageType, Number, Time
from popmq_common.words import counted
from popmq_readings.bodies import body_text
from popmq_readings.times import moment

BODY_SHOWN = 48
HEX_SHOWN_BYTES = 32
SEARCH_TIMEOUT_S = 2 * TIMEOUT_S
_SYSTEM = click.option(
    "--system", is_flag=True, help="Also look in retry topics, dead letters and internal topics."
)


@click.group(cls=CommandGroup)
def message() -> None:
    """Look at stored messages without receiving them."""


message.add_command(delayed)
message.add_command(peek)


@message.command()
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--key", required=True, metavar="KEY", help="One of the message's keys, or its message id."
)
@click.option("--from", "from_ms", type=Time(), help="Only stored at this time or later: 2h (ago).")
@click.option("--to", "until_ms", type=Time(), help="Only stored at this time or earlier.")
@click.option(
    "--limit", type=Number(1, 64), default=32, show_default=True, help="Show at most this many."
)
@_SYSTEM
@client_options
@running
async def find(
    topic: str,
    key: str,
    from_ms: int | None,
    until_ms: int | None,
    limit: int,
    system: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Find the messages of TOPIC that have a key, newest first.

    Exit code 1: no message was found.
    """
    request = admin.FindMessagesRequest(
        topic=topic,
        key=key,
        count_max=limit,
        from_ms=from_ms or 0,
        until_ms=until_ms or 0,
        system=system,
    )
    async with AdminClient(endpoint) as stub:
        response = await stub.FindMessages(request, timeout=SEARCH_TIMEOUT_S)
    found = list(response.messages)
    if as_json:
        rows = [_fields(one) for one in found]
        document({"messages": rows, "incomplete": response.incomplete})
    elif found:
        _table(found)
    if response.incomplete:
        note("There may be more: give a shorter time with --from and --to.")
    elif len(found) == limit:
        note(f"There may be more: --to {moment(found[-1].stored_ms)}")
    if not found:
        fail(f"topic {topic} has no message with key {key}")


@message.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("wanted", metavar="MESSAGE", type=MessageType())
@_SYSTEM
@click.option("--body-only", is_flag=True, help="Print only the body, byte for byte.")
@client_options
@running
async def get(
    topic: str,
    wanted: str | MessagePosition,
    system: bool,
    body_only: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Show one message of TOPIC: place, properties and body.

    MESSAGE is a message id, or QUEUE:OFFSET, or BROKER:QUEUE:OFFSET. If several messages have the
    id, the newest is shown. Exit code 1: there is no such message.
    """
    async with AdminClient(endpoint) as stub:
        if isinstance(wanted, MessagePosition):
            one = await message_at(stub, topic, wanted, system=system)
            found = [] if one is None else [one]
        else:
            request = admin.FindMessagesRequest(
                topic=topic, key=wanted, id_only=True, count_max=2, system=system, whole=True
            )
            found = list((await stub.FindMessages(request, timeout=SEARCH_TIMEOUT_S)).messages)
    if not found:
        fail(f"topic {topic} has no {described(wanted)}")
    if body_only:
        sys.stdout.buffer.write(found[0].body)
    elif as_json:
        document(_fields(found[0]))
    else:
        _show(found[0])
    if len(found) > 1:
        note(f"More messages have this id: popmq message find {topic} --key {wanted}")


def _table(found: list[admin.StoredMessage]) -> None:
    rows = [
        (
            one.message_id,
            one.broker,
            one.queue_id,
            one.offset,
            moment(one.stored_ms),
            one.tag,
            " ".join(one.keys),
            one.body_bytes,
            _head(one),
        )
        for one in found
    ]
    names = ["MESSAGE ID", "BROKER", "QUEUE", "OFFSET", "STORED", "TAG", "KEYS", "BYTES", "BODY"]
    table(names, rows)


def _show(one: admin.StoredMessage) -> None:
    shown = {
        "message id": one.message_id,
        "topic": one.topic,
        "broker": one.broker,
        "queue": one.queue_id,
        "offset": one.offset,
        "log offset": one.log_offset,
        "stored": moment(one.stored_ms),
        "born": moment(one.born_ms),
        "attempt": one.delivery_attempt,
        "bytes": one.body_bytes,
    }
    for name, value in shown.items():
        click.echo(f"{name}: {value}")
    for name, value in sorted(one.properties.items()):
        click.echo(f"  {name} = {value}")
    click.echo()
    text = body_text(one.body)
    click.echo(text if text is not None else _hex(one))


def _fields(one: admin.StoredMessage) -> dict[str, Any]:
    text = body_text(one.body)
    return {
        "messageId": one.message_id,
        "topic": one.topic,
        "broker": one.broker,
        "queueId": one.queue_id,
        "queueOffset": one.offset,
        "logOffset": one.log_offset,
        "storedMs": one.stored_ms,
        "bornMs": one.born_ms,
        "tag": one.tag,
        "keys": list(one.keys),
        "messageGroup": one.message_group,
        "deliveryAttempt": one.delivery_attempt,
        "properties": dict(one.properties),
        "compressed": one.compressed,
        "bodyBytes": one.body_bytes,
        **({"body": text} if text is not None else {"bodyHex": one.body.hex()}),
    }


def _head(one: admin.StoredMessage) -> str:
    """One line of the body."""
    text = body_text(one.body, cut=one.body_bytes > len(one.body))
    if text is None:
        return one.body[:8].hex(" ") + " …"
    line = " ".join(text.split())
    whole = len(line) <= BODY_SHOWN and len(one.body) == one.body_bytes
    return line if whole else line[: BODY_SHOWN - 1] + "…"


def _hex(one: admin.StoredMessage) -> str:
    head = one.body[:HEX_SHOWN_BYTES].hex(" ")
    more = " …" if len(one.body) > HEX_SHOWN_BYTES else ""
    size = counted(one.body_bytes, "byte")
    return f"({size} that are not text; --body-only prints them)\n{head}{more}"
