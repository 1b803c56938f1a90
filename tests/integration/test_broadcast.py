"""Broadcast consumers against a real server: each gets everything, and goes on where it was."""

import time
from pathlib import Path

from integration.conftest import Raw

from popmq import BroadcastConsumer, Client, ReceivedMessage, Start


async def send(raw: Raw, topic: str, bodies: str) -> None:
    async with Client(raw.endpoint) as client:
        for body in bodies:
            await client.send(topic, body.encode())


async def listen(consumer: BroadcastConsumer, fail_on: str = "") -> str:
    heard: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        heard.append(message.body.decode())
        if heard[-1] in fail_on:
            raise ValueError("the handler does not like it")

    while await consumer.step(handle, wait_s=0.2):
        pass
    return "".join(sorted(heard))


async def test_each_gets_everything_failures_are_skipped_and_a_restart_goes_on(
    raw: Raw, tmp_path: Path
) -> None:
    topic = f"t{time.monotonic_ns()}"
    await send(raw, topic, "abcdef")
    for name in ("one", "two"):
        options = {"name": name, "folder": tmp_path, "start": Start.FIRST}
        async with BroadcastConsumer(raw.endpoint, topic, "g", **options) as consumer:  # type: ignore[arg-type]
            assert await listen(consumer, fail_on="c") == "abcdef"
            assert consumer.failed == 1
    await send(raw, topic, "gh")
    async with BroadcastConsumer(raw.endpoint, topic, "g", name="one", folder=tmp_path) as consumer:
        assert await listen(consumer) == "gh"
    assert '"offsetTable"' in (tmp_path / "one" / "g" / "offsets.json").read_text()


async def test_a_new_one_begins_with_what_comes(raw: Raw, tmp_path: Path) -> None:
    topic = f"t{time.monotonic_ns()}"
    await send(raw, topic, "abc")
    async with BroadcastConsumer(raw.endpoint, topic, "g", folder=tmp_path) as consumer:
        await send(raw, topic, "de")
        assert await listen(consumer) == "de"


async def test_queues_that_come_later_are_heard_from_their_first_message(
    raw: Raw, tmp_path: Path
) -> None:
    topic = f"t{time.monotonic_ns()}"
    async with Client(raw.endpoint) as client:
        await client.admin.create_topic(topic, queues=2)
        await client.send(topic, b"before")
        options = {"folder": tmp_path, "balance_s": 0.0}
        async with BroadcastConsumer(raw.endpoint, topic, "g", **options) as consumer:  # type: ignore[arg-type]
            await send(raw, topic, "a")
            assert await listen(consumer) == "a"
            await client.admin.ensure_topic(topic, queues=8)
            await send(raw, topic, "bcdefghijklmnopq")
            assert await listen(consumer) == "bcdefghijklmnopq"


async def test_one_that_comes_back_finds_queues_that_it_did_not_know_by_the_time(
    raw: Raw, tmp_path: Path
) -> None:
    """A broker that was away when it started, or came later, had messages of its time."""
    topic = f"t{time.monotonic_ns()}"
    await send(raw, topic, "a")
    async with BroadcastConsumer(raw.endpoint, topic, "g", folder=tmp_path):
        pass
    await send(raw, topic, "bcdefghi")
    offsets = tmp_path / "default" / "g" / "offsets.json"
    offsets.write_text('{"offsetTable":{}}')
    async with BroadcastConsumer(raw.endpoint, topic, "g", folder=tmp_path) as consumer:
        heard = await listen(consumer)
    assert set("bcdefghi") <= set(heard)
