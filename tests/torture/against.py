"""The same load and judge against a cluster that runs already. Faults are its owner's to do."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from popmq import PullConsumer, ReceivedMessage, Start
from popmq_admin.v1 import admin_pb2 as admin
from torture import load
from torture.campaign import Recorder, drain, let_go_on, note_calls
from torture.cluster import ask
from torture.history import Run, Stored

READ_S_MAX = 300.0
"""A topic."""
POLL_S = 3.0


def run(
    folder: Path,
    recorder: Recorder,
    *,
    seed: int,
    minutes: float,
    endpoints: str,
    clients: Sequence[str],
) -> None:
    """Its topics and groups get names of their own, and stay."""
    topics = f"torture-{seed}-{int(time.time())}"
    settings = {"minutes": minutes, "endpoint": endpoints, "clients": list(clients)}
    recorder.note(Run(seed=seed, began_s=time.time(), settings=settings))
    load.create(partial(ask, endpoints), clients, topics)
    with load.running(folder, clients, endpoints, topics) as loads:
        let_go_on(loads, minutes * 60)
        drain(loads)
    note_calls(loads, recorder)
    for kind in clients:
        for name in load.topics_of(kind, topics):
            recorder.note_all(asyncio.run(_stored(endpoints, name)))


async def _stored(endpoints: str, topic: str) -> list[Stored]:
    """Raises `TimeoutError`: what is not read yet would be held for lost."""
    found: list[Stored] = []
    request = admin.DescribeTopicRequest(name=topic)
    queues = (await asyncio.to_thread(ask, endpoints, "DescribeTopic", request)).queues
    left = sum(queue.max_offset - queue.min_offset for queue in queues)
    reader = PullConsumer(endpoints, topic, f"{topic}-reader", queues="all", start=Start.FIRST)
    async with reader, asyncio.timeout(READ_S_MAX):
        while left > 0:
            messages = await reader.poll(wait_s=POLL_S)
            left -= len(messages)
            found += map(_as_stored, messages)
    return found


def _as_stored(message: ReceivedMessage) -> Stored:
    return Stored(
        broker=message.broker,
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        body=message.body.decode(),
        message_id=message.message_id,
    )
