"""An app whose group is new, on two brokers: what is sent once it is ready comes, whichever broker
it lies on, also when one of them was slow or away while the app started."""

import asyncio
import contextlib
import signal
from collections import Counter
from operator import gt
from pathlib import Path

import pytest
from harness.processes import Process, Server, cluster
from integration.served import running, until

from popmq import App, Client, PopMQClientError

MESSAGES = 20
READY_S = 60.0


def pause(broker: Process) -> None:
    assert broker.running is not None
    broker.running.send_signal(signal.SIGSTOP)


def go_on(broker: Process) -> None:
    assert broker.running is not None
    broker.running.send_signal(signal.SIGCONT)


async def heard(server: Server, trouble: str) -> tuple[set[str], set[str]]:
    """(bodies that were sent when the app was ready, bodies that came)."""
    broker = server.processes["broker-b"]
    ready = asyncio.Event()
    seen: set[str] = set()
    app = App(server.endpoint)
    app.after_startup(ready.set)

    @app.handler("t", "g")
    async def handle(body: bytes) -> None:
        seen.add(body.decode())

    async with Client(server.endpoint) as client:
        for number in range(4):
            await client.send("t", b"before %d" % number)
        before = await stored(client)
        if trouble == "paused":
            pause(broker)
        elif trouble == "killed":
            await asyncio.to_thread(broker.kill)
        async with running(app):
            async with asyncio.timeout(READY_S):
                await ready.wait()
            if trouble == "paused":
                go_on(broker)
            elif trouble == "killed":
                await asyncio.to_thread(broker.start)
            sent = await sent_to_both(client, before)
            await until(lambda: sent <= seen)
    return sent, seen


async def sent_to_both(client: Client, before: tuple[int, int]) -> set[str]:
    """So many messages that each broker has some of them, the one that was away too."""
    sent: set[str] = set()
    async with asyncio.timeout(READY_S):
        while len(sent) < MESSAGES or not all(map(gt, await stored(client), before)):
            body = f"after {len(sent)}"
            await client.send("t", body.encode())
            sent.add(body)
    return sent


async def stored(client: Client) -> tuple[int, int]:
    """Messages of the topic, by broker; 0 of one that does not answer."""
    found: Counter[str] = Counter()
    with contextlib.suppress(PopMQClientError):
        _, queues = await client.admin.describe_topic("t")
        for queue in queues:
            found[queue.broker] += queue.max_offset
    return found["broker-a"], found["broker-b"]


@pytest.mark.parametrize("trouble", ["none", "paused", "killed"])
def test_what_is_sent_when_the_app_is_ready_comes_from_both_brokers(
    tmp_path: Path, trouble: str
) -> None:
    with cluster(tmp_path, brokers=2, proxies=1) as server:
        server.cli("topic", "create", "t", "--queues", "4")
        sent, seen = asyncio.run(heard(server, trouble))
    if trouble == "none":
        assert seen == sent
