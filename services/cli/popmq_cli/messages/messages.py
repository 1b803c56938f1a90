"""popmq send, receive, tail, recall: messages by hand, through the public endpoint."""

import os
import sys
import uuid
from datetime import UTC, datetime
from typing import Any, Final

import click
import grpc

from popmq import Message, ReceivedMessage
from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.completion import group_names, topic_names
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client, client_options, running
from popmq_cli.shell.output import document, note, progress, table
from popmq_cli.shell.parameters import Duration, Number, StartAt, StartType, Time
from popmq_common.words import counted
from popmq_readings.times import duration_text

SEND_BATCH: Final = 32
TAIL_INVISIBLE_S: Final = 30.0
RECEIVE_MAX: Final = 32
"""Messages of one receive."""
WAIT_MS_MAX: Final = 300_000
_TOPIC: Final = click.argument("topic", shell_complete=topic_names)


@click.command(cls=Command)
@_TOPIC
@click.argument("body")
@click.option("--tag", metavar="TAG", help="The message's tag, which consumers can filter by.")
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="A key to find it by. Repeatable."
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the message. Repeatable.",
)
@click.option(
    "--message-group",
    metavar="NAME",
    help="Messages of one message group are consumed in order by FIFO groups.",
)
@click.option(
    "--delay", "delay_ms", type=Duration(), help="Deliver it after this time: 30s, 15m, 2h, 1d."
)
@click.option(
    "--at",
    "deliver_ms",
    type=Time(ago=False),
    help="Deliver it at this time: 2026-11-21T19:30:00Z (UTC without a zone).",
)
@click.option(
    "--count",
    type=Number(1),
    default=1,
    show_default=True,
    help="Send the message this many times.",
)
@client_options
@running
async def send(
    topic: str,
    body: str,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    message_group: str | None,
    delay_ms: int | None,
    deliver_ms: int | None,
    count: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send a message with BODY to TOPIC.

    With - as BODY the body is read from standard input.
    """
    if delay_ms is not None and deliver_ms is not None:
        raise click.UsageError("--delay and --at exclude each other")
    at = None if deliver_ms is None else datetime.fromtimestamp(deliver_ms / 1000, UTC)
    message = Message(
        body=sys.stdin.buffer.read() if body == "-" else os.fsencode(body),
        tag=tag,
        keys=keys,
        properties=dict(_property(text) for text in properties),
        message_group=message_group,
        delay_s=delay_ms / 1000 if delay_ms else None,
        deliver_at=at,
    )
    rows: list[tuple[str, int, str]] = []
    async with client(endpoint) as sending:
        with progress("Sending", shown=count > SEND_BATCH) as tell:
            for start in range(0, count, SEND_BATCH):
                batch = [message] * min(SEND_BATCH, count - start)
                for receipt in await sending.send_many(topic, batch):
                    rows.append((receipt.message_id, receipt.queue_offset, receipt.recall_handle))
                tell(len(rows), count)
    if as_json:
        document([_sent(*row) for row in rows])
    elif any(handle for _, _, handle in rows):
        table(["MESSAGE ID", "RECALL HANDLE"], [(name, handle) for name, _, handle in rows])
    else:
        table(["MESSAGE ID", "OFFSET"], [(name, offset) for name, offset, _ in rows])


def _sent(message_id: str, offset: int, recall_handle: str) -> dict[str, Any]:
    return {"messageId": message_id, "queueOffset": offset, "recallHandle": recall_handle}


@click.command(cls=Command)
@_TOPIC
@click.argument("recall_handle")
@client_options
@running
async def recall(topic: str, recall_handle: str, endpoint: str, as_json: bool) -> None:
    """Take back a delayed message of TOPIC before it is delivered.

    RECALL_HANDLE is what `popmq send` printed for the message.
    """
    async with client(endpoint) as recalling:
        await recalling.recall(topic, recall_handle)
    if as_json:
        document({"recalled": True})
    else:
        click.echo("Recalled: it will not be delivered.")


@click.command(cls=Command)
@_TOPIC
@click.option(
    "--group",
    required=True,
    metavar="GROUP",
    shell_complete=group_names,
    help="The consumer group; it is created if it does not exist.",
)
@click.option("--ack", is_flag=True, help="Acknowledge the messages that were received.")
@click.option(
    "--max",
    "max_messages",
    type=Number(1, RECEIVE_MAX),
    default=16,
    show_default=True,
    help="Receive at most this many messages.",
)
@click.option(
    "--wait",
    "wait_ms",
    type=Duration(max_ms=WAIT_MS_MAX),
    default="5s",
    show_default=True,
    help="Wait this long for the first message.",
)
@click.option(
    "--invisible",
    "invisible_ms",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Redeliver messages that are not acknowledged within this time.",
)
@click.option(
    "--filter",
    "expression",
    default="*",
    show_default=True,
    metavar="TAGS",
    help="Receive only messages with this tag, or one of several: a||b.",
)
@click.option(
    "--sql",
    default="",
    metavar="CONDITION",
    help="Receive only messages whose properties match, like: price > 20.",
)
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="first",
    show_default=True,
    help="Where GROUP starts if it does not exist yet.",
)
@client_options
@running
async def receive(
    topic: str,
    group: str,
    ack: bool,
    max_messages: int,
    wait_ms: int,
    invisible_ms: int,
    expression: str,
    sql: str,
    start: StartAt,
    endpoint: str,
    as_json: bool,
) -> None:
    """Receive messages of TOPIC for a consumer group.

    Without --ack the messages are redelivered when their invisible time ends.
    """
    await ensure_group(endpoint, group, start)
    async with client(endpoint) as receiving:
        messages = await receiving.receive(
            topic,
            group,
            max_messages=max_messages,
            invisible_s=invisible_ms / 1000,
            wait_s=wait_ms / 1000,
            filter=expression,
            sql=sql,
        )
        if ack and messages:
            await receiving.ack(*messages)
    if as_json:
        document([_fields(message) for message in messages])
        return
    if not messages:
        note(f"No message came within {duration_text(wait_ms)}.")
        return
    rows = [
        (message.message_id, message.delivery_attempt, message.tag or "", _text(message))
        for message in messages
    ]
    table(["MESSAGE ID", "ATTEMPT", "TAG", "BODY"], rows)
    hidden = f"not acknowledged; redelivered in {duration_text(invisible_ms)}"
    note(f"{counted(len(messages), 'message')} received, {'acknowledged' if ack else hidden}.")


@click.command(cls=Command)
@_TOPIC
@click.option(
    "--max", "max_messages", type=Number(1), help="Stop after this many.  [default: never]"
)
@client_options
@running
async def tail(topic: str, max_messages: int | None, endpoint: str, as_json: bool) -> None:
    """Print messages of TOPIC as they arrive, until Ctrl-C.

    A temporary consumer group is used, so other consumers miss nothing. With --json each message
    is a document on its own line.
    """
    group = f"TAIL-{uuid.uuid4().hex[:12]}"
    await ensure_group(endpoint, group, StartAt("LAST"), quiet=True)
    seen = 0
    try:
        async with client(endpoint) as receiving:
            while max_messages is None or seen < max_messages:
                messages = await receiving.receive(
                    topic, group, invisible_s=TAIL_INVISIBLE_S, wait_s=10.0
                )
                for message in messages:
                    seen += 1
                    if as_json:
                        document(_fields(message))
                    else:
                        click.echo(f"{message.message_id}  {_text(message)}")
                if messages:
                    await receiving.ack(*messages)
    finally:
        async with AdminClient(endpoint) as stub:
            await stub.DeleteGroup(admin.DeleteGroupRequest(name=group), timeout=TIMEOUT_S)


async def ensure_group(endpoint: str, group: str, start: StartAt, *, quiet: bool = False) -> None:
    """A group that is new starts where the user says, not where the server's default is."""
    async with AdminClient(endpoint) as stub:
        try:
            await stub.DescribeGroup(admin.DescribeGroupRequest(name=group), timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as failed:
            if failed.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            wanted = admin.Group(name=group)
            start.put_into(wanted)
            await stub.CreateGroup(admin.CreateGroupRequest(group=wanted), timeout=TIMEOUT_S)
            if not quiet:
                note(f"Group {group} is new and starts at {start}.")


def _property(text: str) -> tuple[str, str]:
    name, sep, value = text.partition("=")
    if not sep or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _text(message: ReceivedMessage) -> str:
    return message.body.decode("utf-8", "backslashreplace")


def _fields(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "messageId": message.message_id,
        "body": _text(message),
        "deliveryAttempt": message.delivery_attempt,
        "tag": message.tag,
        "keys": list(message.keys),
        "properties": message.properties,
        "broker": message.broker,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "receiptHandle": message.receipt_handle,
    }
