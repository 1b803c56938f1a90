"""python load_official.py ENDPOINT TOPIC GROUP SECONDS: one process of the official Python client.

Runs in that client's environment. Prints what each load did as JSON.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

BODY = bytes(1024)
IN_FLIGHT = 64
THREADS = 8


def row(done: int, began: tuple[float, float]) -> dict[str, float]:
    return {
        "messages": done,
        "seconds": time.perf_counter() - began[0],
        "cpu_s": time.process_time() - began[1],
    }


def begin() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def message(topic: str) -> Any:
    made = Message()
    made.topic = topic
    made.body = BODY
    return made


def in_threads(seconds: float, count: int, work: Callable[[], int]) -> dict[str, float]:
    """`work` again and again, in so many threads."""
    began = begin()
    end = began[0] + seconds
    done: list[int] = []

    def repeat() -> None:
        mine = 0
        while time.perf_counter() < end:
            mine += work()
        done.append(mine)

    threads = [threading.Thread(target=repeat) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return row(sum(done), began)


def send(producer: Any, topic: str, seconds: float, threads: int) -> dict[str, float]:
    def one() -> int:
        producer.send(message(topic))
        return 1

    return in_threads(seconds, threads, one)


def send_async(producer: Any, topic: str, seconds: float) -> dict[str, float]:
    room = threading.Semaphore(IN_FLIGHT)

    def one() -> int:
        room.acquire()
        producer.send_async(message(topic)).add_done_callback(lambda _: room.release())
        return 1

    found = in_threads(seconds, 1, one)
    for _ in range(IN_FLIGHT):
        room.acquire()
    return found


def receive(consumer: Any, seconds: float, threads: int) -> dict[str, float]:
    def some() -> int:
        found = consumer.receive(32, 60) or []
        for one in found:
            consumer.ack(one)
        return len(found)

    return in_threads(seconds, threads, some)


def main(endpoint: str, topic: str, group: str, seconds: float) -> None:
    configuration = ClientConfiguration(endpoint, Credentials())
    producer = Producer(configuration, (topic,))
    producer.startup()
    found = {
        "send, 1 thread": send(producer, topic, seconds, 1),
        f"send, {THREADS} threads": send(producer, topic, seconds, THREADS),
        "send_async": send_async(producer, topic, seconds),
    }
    producer.shutdown()
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression("*")})
    consumer.startup()
    found["receive 32 and ack, 1 thread"] = receive(consumer, seconds, 1)
    found[f"receive 32 and ack, {THREADS} threads"] = receive(consumer, seconds, THREADS)
    consumer.shutdown()
    print(json.dumps(found), flush=True)


_, where, to, of, how_long = sys.argv
main(where, to, of, float(how_long))
