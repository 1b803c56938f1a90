"""python probe_official.py WHAT ENDPOINT TOPIC GROUP COUNT: the official client does one thing, as
its documentation shows, until its standard input ends. Runs in that client's environment.
"""

import sys
import threading
import time
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

from sdk_compare.probing import HANDLING_S, PAUSE_S, say, size


class Slow(MessageListener):  # type: ignore[misc]
    def consume(self, received: Any) -> Any:
        say("begun", received.body.decode(), received.delivery_attempt)
        time.sleep(HANDLING_S)
        say("ended", received.body.decode(), received.delivery_attempt)
        return ConsumeResult.SUCCESS


def consumers(endpoint: str, topic: str, group: str, count: int) -> None:
    kept = []
    for i in range(count):
        consumer = SimpleConsumer(
            ClientConfiguration(endpoint, Credentials()),
            f"{group}-{i}",
            {topic: FilterExpression("*")},
        )
        consumer.startup()
        kept.append(consumer)
    time.sleep(1)
    say("size", *size())


def handle(endpoint: str, topic: str, group: str, count: int) -> None:
    consumer = PushConsumer(
        ClientConfiguration(endpoint, Credentials()),
        group,
        Slow(),
        {topic: FilterExpression("*")},
        consumption_thread_count=count,
    )
    consumer.startup()


def send(endpoint: str, topic: str, group: str, count: int) -> None:
    producer = Producer(ClientConfiguration(endpoint, Credentials()), (topic,))
    producer.startup()

    def repeat() -> None:
        while True:
            made = Message()
            made.topic, made.body = topic, b"x"
            began_s = time.monotonic()
            try:
                producer.send(made)
                say("sent", time.monotonic() - began_s)
            except Exception as failed:
                say("failed", time.monotonic() - began_s, type(failed).__name__)
            time.sleep(PAUSE_S)

    threading.Thread(target=repeat, daemon=True).start()


_, what, where, topic, group, count = sys.argv
{"consumers": consumers, "handle": handle, "send": send}[what](where, topic, group, int(count))
sys.stdin.read()
