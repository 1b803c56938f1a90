"""popmq bench: a small load, to see what this server does from this machine.

Not a comparison with others: sender and receiver run in one Python process, which is often slower
than the server. `make bench` of the sources compares.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import click

from popmq import Client, Message
from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.commands import Command
from popmq_cli.shell.connection import TIMEOUT_S, AdminClient, client, client_options, running
from popmq_cli.shell.output import document, fail, progress, table
from popmq_cli.shell.parameters import Number
from popmq_common.words import counted

RECEIVE_MAX: Final = 32
"""Messages of one receive, the protocol's limit."""
WAIT_S: Final = 5.0
"""A receive that brings nothing for so long ends the load: something is lost, or somebody else
consumes."""
COUNT_MAX: Final = 10_000_000


@dataclass(slots=True)
class Phase:
    """What one part of the load did."""

    name: str
    body_bytes: int
    messages: int = 0
    seconds: float = 0.0
    call_ms: list[float] = field(default_factory=list)
    """How long each call took."""

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.call_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0

    def fields(self) -> dict[str, Any]:
        rate = self.messages / self.seconds if self.seconds else 0.0
        return {
            "phase": self.name,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messagesPerSecond": round(rate, 1),
            "mibPerSecond": round(rate * self.body_bytes / (1 << 20), 3),
            "callMsP50": round(self.percentile_ms(50), 2),
            "callMsP99": round(self.percentile_ms(99), 2),
        }


@click.command(cls=Command)
@click.option(
    "--count",
    type=Number(1, COUNT_MAX),
    default=2_000,
    show_default=True,
    help="Number of messages to send and receive.",
)
@click.option(
    "--bytes",
    "body_bytes",
    type=Number(1, 4 << 20),
    default=1_024,
    show_default=True,
    help="Size of each message body in bytes.",
)
@click.option(
    "--batch",
    type=Number(1, 1_024),
    default=1,
    show_default=True,
    help="Messages in one send request.",
)
@click.option(
    "--in-flight",
    type=Number(1, 1_024),
    default=32,
    show_default=True,
    help="Number of requests in flight at a time.",
)
@client_options
@running
async def bench(
    count: int, body_bytes: int, batch: int, in_flight: int, endpoint: str, as_json: bool
) -> None:
    """Send, receive and acknowledge test messages, and show how fast that was.

    A topic and a group are created for it and deleted at the end. Sender and receiver are this one
    Python process, so the server can do more than the figures say.
    """
    name = f"popmq-bench-{uuid.uuid4().hex[:8]}"
    sent = Phase("send", body_bytes)
    received = Phase("receive, ack", body_bytes)
    async with AdminClient(endpoint) as stub:
        topic = admin.Topic(name=name, message_type="NORMAL", queues=8)
        await stub.CreateTopic(admin.CreateTopicRequest(topic=topic), timeout=TIMEOUT_S)
        group = admin.Group(name=name, consume_from="FIRST")
        await stub.CreateGroup(admin.CreateGroupRequest(group=group), timeout=TIMEOUT_S)
        try:
            async with client(endpoint) as connected:
                await _send(connected, sent, name, count, batch, in_flight)
                await _receive(connected, received, name, count, in_flight)
        finally:
            await stub.DeleteGroup(admin.DeleteGroupRequest(name=name), timeout=TIMEOUT_S)
            await stub.DeleteTopic(admin.DeleteTopicRequest(name=name), timeout=TIMEOUT_S)
    _show([sent, received], as_json=as_json)
    if received.messages < count:
        missing = f"{count - received.messages} of {counted(count, 'message')}"
        fail(f"{missing} did not come within {WAIT_S:g} s")


async def _send(
    client: Client, phase: Phase, topic: str, count: int, batch: int, in_flight: int
) -> None:
    message = Message(body=b"x" * phase.body_bytes)
    left = count

    async def one() -> int:
        nonlocal left
        size = min(batch, left)
        left -= size
        if size:
            await client.send_many(topic, [message] * size)
        return size

    await _repeat(phase, "Sending", one, count, in_flight)


async def _receive(client: Client, phase: Phase, name: str, count: int, in_flight: int) -> None:
    missing = count

    async def one() -> int:
        nonlocal missing
        if missing <= 0:
            return 0
        messages = await client.receive(name, name, max_messages=RECEIVE_MAX, wait_s=WAIT_S)
        missing -= len(messages)
        if messages:
            await client.ack(*messages)
        return len(messages)

    await _repeat(phase, "Receiving", one, count, min(in_flight, 1 + count // RECEIVE_MAX))


async def _repeat(
    phase: Phase, label: str, one: Callable[[], Awaitable[int]], count: int, in_flight: int
) -> None:
    """`one` again and again, `in_flight` at a time, until it has nothing left."""
    began_s = last_s = time.perf_counter()
    with progress(label) as tell:

        async def work() -> None:
            nonlocal last_s
            while phase.messages < count:
                call_s = time.perf_counter()
                done = await one()
                if not done:
                    return
                last_s = time.perf_counter()
                phase.call_ms.append((last_s - call_s) * 1000)
                phase.messages += done
                tell(phase.messages, count)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work()) for _ in range(in_flight)]
            while phase.messages < count and not all(task.done() for task in tasks):
                await asyncio.wait(
                    [task for task in tasks if not task.done()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            for task in tasks:  # polls that wait for what others have got
                task.cancel()
    phase.seconds = last_s - began_s


def _show(phases: list[Phase], *, as_json: bool) -> None:
    rows = [phase.fields() for phase in phases]
    if as_json:
        document(rows)
        return
    names = ["PHASE", "MESSAGES", "SECONDS", "MSG/S", "MIB/S", "CALL P50 MS", "CALL P99 MS"]
    table(names, [tuple(row.values()) for row in rows])
