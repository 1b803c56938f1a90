"""popmq message: look at messages that are stored, without receiving them."""

import sys
import time
from typing import Any

import click

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.completion import topic_names
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, fail, table
from popmq_cli.times import moment, point_in_time

BODY_SHOWN = 48
HEX_SHOWN_BYTES = 32
SEARCH_TIMEOUT_S = 2 * TIMEOUT_S


@click.group()
def message() -> None:
    """Find messages by key, show them by id or by place."""


@message.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--key", required=True, help="One of its keys, or its message id.")
@click.option("--from", "start", default="", metavar="TIME", help="Stored at that time or later.")
@click.option("--to", "end", default="", metavar="TIME", help="Stored at that time or earlier.")
@click.option(
    "--limit", type=click.IntRange(1, 64), default=32, show_default=True, help="At most so many."
)
@click.option("--system", is_flag=True, help="Also in retry topics, dead letters, internal topics.")
@client_options
@running
async def find(
    topic: str,
    key: str,
    start: str,
    end: str,
    limit: int,
    system: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Find the messages of TOPIC that have a key, the newest first.

    A TIME is 2h (ago), 2026-11-21, 2026-11-21T19:30:00 (UTC) or milliseconds since 1970. Exit
    code 1: nothing was found.
    """
    now_ms = time.time_ns() // 1_000_000
    request = admin.FindMessagesRequest(
        topic=topic,
        key=key,
        count_max=limit,
        from_ms=point_in_time(start, now_ms) if start else 0,
        until_ms=point_in_time(end, now_ms) if end else 0,
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
        click.echo("There may be more: shorten the time with --from and --to.", err=True)
    elif len(found) == limit:
        click.echo(f"There may be more: --to {found[-1].stored_ms}", err=True)
    if not found:
        fail(f"topic {topic} has no message with key {key}")


@message.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--id", "message_id", default="", help="Its message id; of several the newest.")
@click.option(
    "--offset", "place", default="", metavar="QUEUE:OFFSET", help="Or its place in the topic."
)
@click.option("--broker", default="", help="With --offset: of this broker.")
@click.option("--system", is_flag=True, help="Also in retry topics, dead letters, internal topics.")
@click.option("--body-only", is_flag=True, help="Nothing but the body, as it is.")
@client_options
@running
async def get(
    topic: str,
    message_id: str,
    place: str,
    broker: str,
    system: bool,
    body_only: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Show one message of TOPIC: place, properties and body.

    Exit code 1: there is no such message.
    """
    if bool(message_id) == bool(place):
        raise click.UsageError("say which: either --id or --offset QUEUE:OFFSET")
    async with AdminClient(endpoint) as stub:
        if message_id:
            request = admin.FindMessagesRequest(
                topic=topic, key=message_id, id_only=True, count_max=2, system=system, whole=True
            )
            found = list((await stub.FindMessages(request, timeout=SEARCH_TIMEOUT_S)).messages)
            what = f"message {message_id}"
        else:
            queue_id, offset = _place(place)
            asked = admin.GetMessageRequest(
                topic=topic, queue_id=queue_id, offset=offset, broker=broker, system=system
            )
            found = list((await stub.GetMessage(asked, timeout=TIMEOUT_S)).messages)
            what = f"message at offset {offset} of queue {queue_id}"
    if not found:
        fail(f"topic {topic} has no {what}")
    if place and len(found) > 1:
        names = ", ".join(one.broker for one in found)
        fail(f"brokers {names} have a {what}; say which with --broker")
    if body_only:
        sys.stdout.buffer.write(found[0].body)
    elif as_json:
        document(_fields(found[0]))
    else:
        _show(found[0])
    if len(found) > 1:
        click.echo(f"More have this id: popmq message find {topic} --key {message_id}", err=True)


def _place(text: str) -> tuple[int, int]:
    queue, sep, offset = text.partition(":")
    if not sep or not all(part.isascii() and part.isdigit() for part in (queue, offset)):
        raise click.BadParameter(f"{text!r} is not QUEUE:OFFSET", param_hint="--offset")
    return int(queue), int(offset)


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
    text = _text(one.body)
    click.echo(text if text is not None else _hex(one))


def _fields(one: admin.StoredMessage) -> dict[str, Any]:
    text = _text(one.body)
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
    text = _text(one.body, cut=one.body_bytes > len(one.body))
    if text is None:
        return one.body[:8].hex(" ") + " …"
    line = " ".join(text.split())
    whole = len(line) <= BODY_SHOWN and len(one.body) == one.body_bytes
    return line if whole else line[: BODY_SHOWN - 1] + "…"


def _hex(one: admin.StoredMessage) -> str:
    head = one.body[:HEX_SHOWN_BYTES].hex(" ")
    more = " …" if len(one.body) > HEX_SHOWN_BYTES else ""
    return f"({one.body_bytes} bytes that are not text; --body-only prints them)\n{head}{more}"


def _text(body: bytes, *, cut: bool = False) -> str | None:
    """None: it is not text. `cut`: its last character may be half there."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        if not cut or wrong.start < len(body) - 3:
            return None
        text = body[: wrong.start].decode()
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None
