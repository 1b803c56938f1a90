"""popmq send, receive, tail: messages by hand, through the public endpoint."""

import sys
import uuid
from datetime import datetime
from typing import Any

import click
import grpc

from popmq import Client, Message, ReceivedMessage
from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.completion import group_names, topic_names
from popmq_cli.connection import TIMEOUT_S, AdminClient, client_options, running
from popmq_cli.output import document, progress, table
from popmq_cli.times import duration_ms

SEND_BATCH = 32
TAIL_INVISIBLE_S = 30.0


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("body")
@click.option("--tag", help="The message's tag.")
@click.option("--key", "keys", multiple=True, help="A key to find it by; may be given again.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be given again."
)
@click.option("--message-group", help="Messages of one group keep their order.")
@click.option("--delay", help="Deliver it so much later: 30s, 15m, 2h, 1d.")
@click.option(
    "--at",
    "deliver_at",
    type=click.DateTime(),
    metavar="TIME",
    help="Deliver it then: 2026-11-21T19:30:00, local time.",
)
@click.option("--count", default=1, show_default=True, help="Send it so many times.")
@client_options
@running
async def send(
    topic: str,
    body: str,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    message_group: str | None,
    delay: str | None,
    deliver_at: datetime | None,
    count: int,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send BODY to TOPIC; `-` reads the body from standard input."""
    try:
        delay_ms = duration_ms(delay) if delay else 0
    except ValueError as wrong:
        raise click.BadParameter(str(wrong), param_hint="--delay") from None
    if delay and deliver_at:
        raise click.UsageError("--delay and --at exclude each other")
    data = sys.stdin.buffer.read() if body == "-" else body.encode()
    message = Message(
        body=data,
        tag=tag,
        keys=keys,
        properties=dict(_property(text) for text in properties),
        message_group=message_group,
        delay_s=delay_ms / 1000 if delay_ms else None,
        deliver_at=deliver_at,
    )
    rows: list[tuple[str, int, str]] = []
    async with Client(endpoint) as client:
        with progress("Sending", shown=count > SEND_BATCH) as tell:
            for start in range(0, count, SEND_BATCH):
                batch = [message] * min(SEND_BATCH, count - start)
                for receipt in await client.send_many(topic, batch):
                    rows.append((receipt.message_id, receipt.queue_offset, receipt.recall_handle))
                tell(len(rows), count)
    if as_json:
        document([_sent(*row) for row in rows])
    elif any(handle for _, _, handle in rows):
        table(["MESSAGE ID", "RECALL HANDLE"], [(name, handle) for name, _, handle in rows])
    else:
        table(["MESSAGE ID", "OFFSET"], [(name, offset) for name, offset, _ in rows])


def _sent(message_id: str, offset: int, recall_handle: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"messageId": message_id, "queueOffset": offset}
    return {**fields, "recallHandle": recall_handle} if recall_handle else fields


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("recall_handle")
@client_options
@running
async def recall(topic: str, recall_handle: str, endpoint: str, as_json: bool) -> None:
    """Take a delayed message of TOPIC back, by the handle that `popmq send` printed."""
    async with Client(endpoint) as client:
        await client.recall(topic, recall_handle)
    if as_json:
        document({"recalled": True})
    else:
        click.echo("Recalled: it will not be delivered.")


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--group", required=True, shell_complete=group_names, help="The consumer group.")
@click.option("--ack", is_flag=True, help="Acknowledge what was received.")
@click.option("--max", "max_messages", default=16, show_default=True, help="At most so many.")
@click.option("--wait", "wait_s", default=5.0, show_default=True, help="Seconds to wait for one.")
@click.option(
    "--invisible",
    "invisible_s",
    default=60.0,
    show_default=True,
    help="Seconds until they come again.",
)
@click.option("--filter", "expression", default="*", show_default=True, help="A tag, or a||b.")
@click.option("--sql", default="", help="Or a condition: price > 20.")
@click.option(
    "--from",
    "consume_from",
    type=click.Choice(["first", "last"]),
    default="first",
    show_default=True,
    help="Where a group starts that does not exist yet.",
)
@client_options
@running
async def receive(
    topic: str,
    group: str,
    ack: bool,
    max_messages: int,
    wait_s: float,
    invisible_s: float,
    expression: str,
    sql: str,
    consume_from: str,
    endpoint: str,
    as_json: bool,
) -> None:
    """Receive messages of TOPIC for a consumer group.

    Without --ack they come again when their time is over.
    """
    await ensure_group(endpoint, group, consume_from)
    async with Client(endpoint) as client:
        messages = await client.receive(
            topic,
            group,
            max_messages=max_messages,
            invisible_s=invisible_s,
            wait_s=wait_s,
            filter=expression,
            sql=sql,
        )
        if ack and messages:
            await client.ack(*messages)
    if as_json:
        document([_fields(message) for message in messages])
        return
    if not messages:
        click.echo(f"Nothing came within {wait_s:g} s.", err=True)
        return
    rows = [
        (message.message_id, message.delivery_attempt, message.tag or "", _text(message))
        for message in messages
    ]
    table(["MESSAGE ID", "ATTEMPT", "TAG", "BODY"], rows)
    done = "acknowledged" if ack else f"not acknowledged, hidden for {invisible_s:g} s"
    click.echo(f"{len(messages)} received, {done}.", err=True)


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--max", "max_messages", default=0, help="Stop after so many.  [default: never]")
@client_options
@running
async def tail(topic: str, max_messages: int, endpoint: str, as_json: bool) -> None:
    """Print messages of TOPIC as they arrive, until Ctrl-C.

    It has a group of its own, so no other consumer misses anything.
    """
    group = f"TAIL-{uuid.uuid4().hex[:12]}"
    await ensure_group(endpoint, group, "last", quiet=True)
    seen = 0
    try:
        async with Client(endpoint) as client:
            while not max_messages or seen < max_messages:
                messages = await client.receive(
                    topic, group, invisible_s=TAIL_INVISIBLE_S, wait_s=10.0
                )
                for message in messages:
                    seen += 1
                    if as_json:
                        document(_fields(message))
                    else:
                        click.echo(f"{message.message_id}  {_text(message)}")
                if messages:
                    await client.ack(*messages)
    finally:
        async with AdminClient(endpoint) as stub:
            await stub.DeleteGroup(admin.DeleteGroupRequest(name=group), timeout=TIMEOUT_S)


async def ensure_group(endpoint: str, group: str, start: str, *, quiet: bool = False) -> None:
    """A group that is new starts where the user says, not where the server's default is."""
    async with AdminClient(endpoint) as stub:
        try:
            await stub.DescribeGroup(admin.DescribeGroupRequest(name=group), timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as failed:
            if failed.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            wanted = admin.Group(name=group, consume_from=start.upper())
            await stub.CreateGroup(admin.CreateGroupRequest(group=wanted), timeout=TIMEOUT_S)
            if not quiet:
                click.echo(f"Group {group} is new and starts at the {start} message.", err=True)


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
