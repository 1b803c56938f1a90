"""A backup of a broker under load: what had been answered before it is in it."""

import asyncio
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harness.processes import POPMQ, standalone

from popmq import Client

TOPIC, GROUP = "orders", "billing"
HOLD_S = 2.0
BEFORE_COUNT = 300
"""Messages of which some are acked before the backup begins."""
ENV = {
    "POPMQ_BROKER_SEGMENT_BYTES": str(256 * 1024),  # files roll while they are copied
    "POPMQ_BROKER_QUEUE_FILE_BYTES": "20000",
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "100",
}


@dataclass
class Book:
    sent: set[bytes] = field(default_factory=set)
    """Answered OK."""
    acked: set[bytes] = field(default_factory=set)
    ack_tried: set[bytes] = field(default_factory=set)

    enough: asyncio.Event = field(default_factory=asyncio.Event)
    """So much is acked that a backup may begin."""

    def copy(self) -> "Book":
        return Book(set(self.sent), set(self.acked), set(self.ack_tried))


async def load(client: Client, book: Book, stop: asyncio.Event) -> None:
    """Sends without an end, and acks every second message of what comes."""

    async def send() -> None:
        async with client.producer() as producer:
            number = 0
            while not stop.is_set():
                bodies = [b"%d" % one + b"." * 500 for one in range(number, number + 16)]
                await asyncio.gather(*(producer.send(TOPIC, body) for body in bodies))
                book.sent.update(bodies)
                number += 16

    async def consume() -> None:
        while not stop.is_set():
            found = await client.receive(TOPIC, GROUP, invisible_s=HOLD_S, wait_s=1)
            chosen = [one for one in found if int(one.body.split(b".")[0]) % 2]
            book.ack_tried.update(one.body for one in chosen)
            await client.ack(*chosen)
            book.acked.update(one.body for one in chosen)
            if len(book.acked) >= BEFORE_COUNT:
                book.enough.set()

    await asyncio.gather(send(), consume())


async def back_up_under_load(endpoint: str, source: Path, target: Path) -> Book:
    """What had been answered when the backup began."""
    book, stop = Book(), asyncio.Event()
    async with Client(endpoint) as client:
        loading = asyncio.create_task(load(client, book, stop))
        await book.enough.wait()
        before = book.copy()
        command = [POPMQ, "store", "backup", str(source), str(target), "--json"]
        done = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await done.communicate()
        assert done.returncode == 0
        assert json.loads(output)["bytes"] > 0
        tried = set(book.ack_tried)
        assert len(book.sent) > len(before.sent), "there was load while it was copied"
        stop.set()
        await loading
    before.ack_tried = tried
    return before


async def all_of(endpoint: str, group: str) -> set[bytes]:
    """What the group gets, until nothing came for longer than it may hold a message."""
    found: set[bytes] = set()
    async with Client(endpoint) as client:
        while came := await client.receive(TOPIC, group, invisible_s=60, wait_s=2 * HOLD_S):
            found.update(one.body for one in came)
            await client.ack(*came)
    return found


@pytest.mark.timeout(300)
def test_a_copy_of_a_running_broker_has_what_was_answered_before(tmp_path: Path) -> None:
    target = tmp_path / "restored" / "data"
    with standalone(tmp_path, ENV) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        for group in (GROUP, "audit"):
            server.cli("group", "create", group, "--from", "first", "--max-attempts", "1000")
        source = tmp_path / "data"
        before = asyncio.run(back_up_under_load(server.endpoint, source, target))
    command = [POPMQ, "store", "check", str(target)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    with standalone(tmp_path / "restored", ENV) as restored:
        assert before.sent <= asyncio.run(all_of(restored.endpoint, "audit"))
        found = asyncio.run(all_of(restored.endpoint, GROUP))
    assert before.sent - before.ack_tried <= found
    assert not found & before.acked, "what was acked came again"
