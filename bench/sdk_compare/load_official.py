"""python load_official.py ENDPOINT TOPIC GROUP: one process of the official Python client, in that
client's environment.

Its ways are what its documentation shows: `send` from one thread and from several, `send_async`;
`receive` and `ack` in one thread and in several, `ack_async`, and the push consumer.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

from sdk_compare.counting import BODY, Count

THREADS = 8
IN_FLIGHT = (64, 512)
BATCH, INVISIBLE_S = 32, 60
ANSWERS_S = 5.0
"""How long acks that nobody waits for may take at the end."""
Way = Callable[[float], dict[str, float]]


def message(topic: str) -> Any:
    made = Message()
    made.topic = topic
    made.body = BODY
    return made


def in_threads(seconds: float, threads: int, work: Callable[[Count], None]) -> Count:
    """`work` again and again, in so many threads, each with a count of its own."""
    whole = Count(seconds)
    own = [Count(seconds) for _ in range(threads)]

    def repeat(count: Count) -> None:
        while not count.is_over:
            work(count)

    if threads == 1:  # ack_async works in the main thread alone: it makes an asyncio.Future
        repeat(own[0])
    else:
        running = [threading.Thread(target=repeat, args=(count,)) for count in own]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    whole.messages = sum(count.messages for count in own)
    whole.wrong = sum(count.wrong for count in own)
    return whole


def send(producer: Any, topic: str, threads: int, seconds: float) -> dict[str, float]:
    def one(count: Count) -> None:
        producer.send(message(topic))
        count.messages += 1

    return in_threads(seconds, threads, one).done()


def send_async(producer: Any, topic: str, in_flight: int, seconds: float) -> dict[str, float]:
    room = threading.Semaphore(in_flight)
    stored: list[None] = []

    def answered(sent: Any) -> None:
        if sent.exception() is None:
            stored.append(None)
        room.release()

    count = Count(seconds)
    while not count.is_over:
        room.acquire()
        producer.send_async(message(topic)).add_done_callback(answered)
    for _ in range(in_flight):
        room.acquire()
    count.messages = len(stored)
    return count.done()


def receive(consumer: Any, threads: int, ack: str, seconds: float) -> dict[str, float]:
    """`ack`: the method that each message is acked with."""

    def some(count: Count) -> None:
        found = consumer.receive(BATCH, INVISIBLE_S) or []
        for one in found:
            count.wrong += one.body != BODY
            getattr(consumer, ack)(one)
        count.messages += len(found)

    row = in_threads(seconds, threads, some).done()
    if ack == "ack_async":  # it returns nothing that one could wait for
        time.sleep(ANSWERS_S)
    return row


def push(
    configuration: Any, topic: str, group: str, threads: int, seconds: float
) -> dict[str, float]:
    """The counting begins with the first message."""
    first, lock = threading.Event(), threading.Lock()
    counts: list[Count] = []

    class Listener(MessageListener):  # type: ignore[misc]
        def consume(self, received: Any) -> Any:
            with lock:
                if not counts:
                    counts.append(Count(seconds))
                    first.set()
                if not counts[0].is_over:
                    counts[0].messages += 1
                    counts[0].wrong += received.body != BODY
            return ConsumeResult.SUCCESS

    subscription = {topic: FilterExpression("*")}
    consumer = PushConsumer(
        configuration, group, Listener(), subscription, consumption_thread_count=threads
    )
    consumer.startup()
    if not first.wait(30):
        raise TimeoutError("the push consumer got nothing")
    time.sleep(max(0.0, counts[0].end_s - time.perf_counter()))
    row = counts[0].done()
    consumer.shutdown()
    return row


def ways(endpoint: str, topic: str, group: str) -> dict[str, Way]:
    configuration = ClientConfiguration(endpoint, Credentials())
    producer = Producer(configuration, (topic,))
    producer.startup()
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression("*")})
    consumer.startup()
    return {
        "send, 1 thread": partial(send, producer, topic, 1),
        f"send, {THREADS} threads": partial(send, producer, topic, THREADS),
        **{
            f"send_async, {count} in flight": partial(send_async, producer, topic, count)
            for count in IN_FLIGHT
        },
        "receive 32 and ack, 1 thread": partial(receive, consumer, 1, "ack"),
        f"receive 32 and ack, {THREADS} threads": partial(receive, consumer, THREADS, "ack"),
        "receive 32 and ack_async, 1 thread": partial(receive, consumer, 1, "ack_async"),
        "receive by PushConsumer, 20 threads": partial(push, configuration, topic, group, 20),
    }


def main(endpoint: str, topic: str, group: str) -> None:
    mine = ways(endpoint, topic, group)
    print(json.dumps(list(mine)), flush=True)
    for line in sys.stdin:
        way, seconds = json.loads(line)
        print(json.dumps(mine[way](seconds)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
