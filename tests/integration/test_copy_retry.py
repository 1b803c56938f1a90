"""Retry by copies: attempts counted in a header, dead ones apart, other groups not bothered."""

import time

from integration.conftest import Raw

from popmq import Client, PullConsumer, ReceivedMessage, Start
from popmq.pull.copy_retry import COUNT, GROUP, ORIGIN, REASON, CopyRetry


class Handler:
    def __init__(self, fails_on: str) -> None:
        self.seen: list[str] = []
        self._fails_on = fails_on

    async def __call__(self, message: ReceivedMessage) -> None:
        self.seen.append(message.body.decode())
        if message.body.decode() in self._fails_on:
            raise ValueError("no\nluck")


async def work(endpoint: str, topic: str, group: str, retry: CopyRetry, handler: Handler) -> None:
    async with PullConsumer(endpoint, topic, group, sql=retry.sql, start=Start.FIRST) as consumer:
        while messages := await consumer.poll(wait_s=0.2):
            for message in messages:
                await retry.handle(message, handler)
                consumer.done(message)


async def test_a_failed_message_is_tried_again_by_its_group_alone_and_then_dead(raw: Raw) -> None:
    topic = f"t{time.monotonic_ns()}"
    async with Client(raw.endpoint) as client:
        for body in "abc":
            await client.send(topic, body.encode(), tag="x", keys=["k"], properties={"p": "q"})
        names = {"retry_topic": f"{topic}-retry", "dead_topic": f"{topic}-dead"}
        failing, sound = Handler("b"), Handler("")
        ours = CopyRetry(client, "ours", max_attempts=3, **names)
        theirs = CopyRetry(client, "theirs", max_attempts=3, **names)
        for name in (topic, f"{topic}-retry"):
            await work(raw.endpoint, name, "ours", ours, failing)
        for name in (topic, f"{topic}-retry"):
            await work(raw.endpoint, name, "theirs", theirs, sound)
        assert sorted(failing.seen) == ["a", "b", "b", "b", "c"]
        assert sorted(sound.seen) == ["a", "b", "c"]
        await client.send(f"{topic}-dead", b"last")  # so that the topic exists, whatever happened
        async with PullConsumer(
            raw.endpoint, f"{topic}-dead", "reader", start=Start.FIRST
        ) as consumer:
            dead = [m for m in await consumer.poll() if m.body != b"last"]
            dead += [m for m in await consumer.poll(wait_s=0) if m.body != b"last"]
    (letter,) = dead
    assert (letter.body, letter.tag, letter.keys) == (b"b", "x", ("k",))
    assert letter.properties["p"] == "q"
    assert (letter.properties[COUNT], letter.properties[GROUP]) == ("3", "ours")
    assert letter.properties[ORIGIN] == topic
    assert letter.properties[REASON] == "ValueError: no luck"
