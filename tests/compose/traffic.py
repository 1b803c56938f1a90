"""Messages through the cluster from outside; what fails on the way is tried again, in bounds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from popmq import Client, PopMQClientError

RECOVER_S = 90.0
"""A broker's death is noticed after 15 s, a proxy asks for routes each 20 s, a client each 30 s."""
PAUSE_S = 0.2
T = TypeVar("T")


async def send(client: Client, topic: str, bodies: Iterable[str]) -> None:
    """Each until it is answered OK; raises the last refusal when that takes too long."""
    for body in bodies:
        await within(RECOVER_S, lambda body=body: client.send(topic, body.encode()))  # type: ignore[misc]


async def receive(
    client: Client, topic: str, group: str, expected: set[str], seconds: float = RECOVER_S
) -> list[str]:
    """Receive and ack until all `expected` bodies came or the time is over; duplicates are kept."""
    got: list[str] = []
    end = time.monotonic() + seconds
    while not expected <= set(got) and time.monotonic() < end:
        try:
            messages = await client.receive(topic, group, wait_s=1.0)
        except PopMQClientError:  # a broker that is down
            await asyncio.sleep(PAUSE_S)
            continue
        if messages:
            await client.ack(*messages)
        got += [message.body.decode() for message in messages]
    return got


async def within(seconds: float, attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again what the server refuses or does not answer, for `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            return await attempt()
        except PopMQClientError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(PAUSE_S)


async def within_true(reached: Callable[[], bool], seconds: float = RECOVER_S) -> None:
    """Until it holds; it is asked in a thread, for it may take long."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(reached):
        assert time.monotonic() < end, f"not within {seconds} s"
        await asyncio.sleep(PAUSE_S)


def bodies(name: str, count: int) -> set[str]:
    return {f"{name}-{i}" for i in range(count)}
