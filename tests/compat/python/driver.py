"""Scenarios on the official Python client; runs in the client's own environment.

python driver.py SCENARIO SEND_TO RECEIVE_FROM TOPIC GROUP
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

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
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

_, scenario, send_to, receive_from, topic, group = sys.argv
sending = ClientConfiguration(send_to, Credentials())
receiving = ClientConfiguration(receive_from, Credentials())


SHORT_WAIT_S = 2
PRODUCTS = {
    "near": {"price": "30", "regionId": "hangzhou"},
    "dear": {"price": "300", "regionId": "hangzhou"},
    "anywhere": {"price": "30"},
    "free": {},
}


def producer():
    started = Producer(sending, (topic,))
    started.startup()
    return started


def consumer(expression="*", kind=FilterType.TAG, wait=SHORT_WAIT_S, is_first=True):
    started = SimpleConsumer(
        receiving, group, {topic: FilterExpression(expression, kind)}, await_duration=wait
    )
    started.startup()
    # This client does not wait until the server has its settings, so its group has started for sure
    # when a receive has been answered.
    if is_first and wait == SHORT_WAIT_S:
        started.receive(1, 10)
    return started


def message(body, tag=None):
    made = Message()
    made.topic = topic
    made.body = body.encode()
    if tag:
        made.tag = tag
    return made


def fields(received):
    return {
        "id": received.message_id,
        "body": received.body.decode(),
        "attempt": received.delivery_attempt,
        "tag": received.tag,
        "keys": sorted(received.keys),
        "properties": dict(received.properties),
    }


def receive(started, count, seconds=15, invisible=20):
    """Until `count` messages came or the time is over."""
    found = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        found += started.receive(32, invisible) or []
    return found


def round_trip():
    sender, receiver = producer(), consumer()
    sent = []
    for i in range(10):
        made = message(f"body-{i} 中文 🏷", "blue")
        made.keys = "key-1"
        made.keys = "key-2"
        made.add_property("colour", "blau, naïve")
        if i % 2:
            sent.append(sender.send(made).message_id)
        else:
            sent.append(sender.send_async(made).result(5).message_id)
    messages = receive(receiver, 10)
    for one in messages:
        receiver.ack(one)
    again = receive(receiver, 1, seconds=3)
    sender.shutdown()
    receiver.shutdown()
    return {
        "sent": sent,
        "messages": [fields(m) for m in messages],
        "again": [m.message_id for m in again],
    }


def away():
    consumer().shutdown()
    sender = producer()
    sent = [sender.send(message(f"body-{i}")).message_id for i in range(8)]
    receiver = consumer(is_first=False)
    messages = receive(receiver, len(sent))
    for one in messages:
        receiver.ack(one)
    sender.shutdown()
    receiver.shutdown()
    return {"sent": sent, "messages": [fields(m) for m in messages]}


def wakes():
    sender, receiver = producer(), consumer(wait=20)
    waited = []
    with ThreadPoolExecutor() as threads:
        for i in range(6):
            waiting = threads.submit(receive, receiver, 1, 60)
            time.sleep(1)  # until it waits
            sender.send(message(f"body-{i}"))
            sent = time.monotonic()
            (received,) = waiting.result()
            waited.append(time.monotonic() - sent)
            receiver.ack(received)
    sender.shutdown()
    receiver.shutdown()
    return {"waited_s": waited}


def delay():
    sender, receiver = producer(), consumer()
    due_s = int(time.time()) + 5  # this client knows whole seconds
    receipts = []
    for body in ("later", "taken back"):
        made = message(body)
        made.delivery_timestamp = due_s
        receipts.append(sender.send(made))
    recalled = sender.recall_message(topic, receipts[1].recall_handle)
    messages = receive(receiver, 1)
    came_ms = time.time() * 1000
    messages += receive(receiver, 1, seconds=3)  # what should not come
    too_late = ""
    try:
        sender.recall_message(topic, receipts[0].recall_handle)
    except Exception as error:
        too_late = str(error)
    sender.shutdown()
    receiver.shutdown()
    return {
        "sent": [receipt.message_id for receipt in receipts],
        "recalled": recalled,
        "messages": [fields(m) for m in messages],
        "due_ms": due_s * 1000,
        "told_due_ms": messages[0].delivery_timestamp,
        "came_ms": came_ms,
        "too_late": too_late,
    }


def redelivery():
    sender, receiver = producer(), consumer()
    sender.send(message("once more"))
    first = receive(receiver, 1, invisible=10)
    second = receive(receiver, 1)
    refused = False
    try:
        receiver.ack(first[0])
    except Exception as error:
        refused = getattr(error, "code", 0) == 40013
    receiver.ack(second[0])
    sender.shutdown()
    receiver.shutdown()
    return {"messages": [fields(m) for m in first + second], "late_ack_refused": refused}


def change_invisible():
    sender, receiver = producer(), consumer()
    sender.send(message("hold me"))
    held = receive(receiver, 1, invisible=10)[0]
    receiver.change_invisible_duration(held, 20)
    while_held = receive(receiver, 1, seconds=12)
    receiver.ack(held)
    after_ack = receive(receiver, 1, seconds=12)
    sender.shutdown()
    receiver.shutdown()
    return {
        "while_held": [m.message_id for m in while_held],
        "after_ack": [m.message_id for m in after_ack],
    }


def tag_filter():
    sender, receiver = producer(), consumer(" A || Aa ")
    for tag in ("A", "Aa", "BB", "C"):
        sender.send(message(tag, tag))
    messages = receive(receiver, 2)
    messages += receive(receiver, 2, seconds=4)  # what should not come
    for one in messages:
        receiver.ack(one)
    sender.shutdown()
    receiver.shutdown()
    return {"messages": [fields(m) for m in messages]}


def sql_filter():
    sender = producer()
    receiver = consumer("(price BETWEEN 10 AND 100) AND regionId IS NOT NUll", FilterType.SQL)
    for body, named in PRODUCTS.items():
        made = message(body)
        for name, value in named.items():
            made.add_property(name, value)
        sender.send(made)
    messages = receive(receiver, 1)
    messages += receive(receiver, 3, seconds=5)  # what should not come
    for one in messages:
        receiver.ack(one)
    sender.shutdown()
    receiver.shutdown()
    return {"messages": [fields(m) for m in messages]}


def push():
    seen = []
    done = threading.Event()

    class Listener(MessageListener):
        def consume(self, received):
            seen.append(fields(received))
            if len(seen) == 11:
                done.set()
            failed = received.body == b"body-3" and received.delivery_attempt == 1
            return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS

    started = PushConsumer(receiving, group, Listener(), {topic: FilterExpression("*")})
    started.startup()
    sender = producer()
    for i in range(10):
        sender.send(message(f"body-{i}"))
    done.wait(30)
    time.sleep(2)  # anything that comes too often would come now
    started.shutdown()
    sender.shutdown()
    return {"messages": seen}


def transaction():
    asked = []

    class Checker(TransactionChecker):
        def check(self, received):
            body = received.body.decode()
            asked.append(body)
            commit = body == "forgotten-commit"
            return TransactionResolution.COMMIT if commit else TransactionResolution.ROLLBACK

    sender = Producer(sending, (topic,), checker=Checker())
    sender.startup()
    receiver = consumer()
    for body in ("commit", "rollback", "forgotten-commit", "forgotten-rollback"):
        begun = sender.begin_transaction()
        sender.send(message(body), begun)
        if not body.startswith("forgotten"):
            getattr(begun, body)()
    messages = receive(receiver, 2, seconds=30, invisible=60)  # held until all have come
    messages += receive(receiver, 2, seconds=5, invisible=60)  # what should not come
    for one in messages:
        receiver.ack(one)
    sender.shutdown()
    receiver.shutdown()
    return {"messages": [fields(m) for m in messages], "asked": asked}


def slow_push():
    seen = []
    done = threading.Event()
    began = time.monotonic()

    class Listener(MessageListener):
        def consume(self, received):
            seen.append(fields(received))
            time.sleep(7)
            done.set()
            return ConsumeResult.SUCCESS

    started = PushConsumer(receiving, group, Listener(), {topic: FilterExpression("*")})
    started.startup()
    sender = producer()
    sender.send(message("slow"))
    done.wait(30)
    seconds = time.monotonic() - began
    time.sleep(4)  # had it not been acked, it would come now
    started.shutdown()
    sender.shutdown()
    return {"messages": seen, "seconds": seconds}


def fifo():
    sender, receiver = producer(), consumer()
    began = time.monotonic()
    for i in range(256):
        made = message(f"m-{i}")
        made.message_group = "one"
        sender.send(made)
    messages = []
    while len(messages) < 256 and time.monotonic() < began + 60:
        for one in receiver.receive(32, 20) or []:
            messages.append(one)
            receiver.ack(one)
    seconds = time.monotonic() - began
    sender.shutdown()
    receiver.shutdown()
    return {"messages": [fields(m) for m in messages], "seconds": seconds}


def fifo_push():
    seen = []
    done = threading.Event()

    class Listener(MessageListener):
        def consume(self, received):
            first = all(one["body"] != "a-3" for one in seen)
            seen.append(fields(received))
            if len(seen) == 31:
                done.set()
            failed = received.body == b"a-3" and first
            return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS

    started = PushConsumer(receiving, group, Listener(), {topic: FilterExpression("*")})
    started.startup()
    sender = producer()
    for i in range(10):
        for name in "abc":
            made = message(f"{name}-{i}")
            made.message_group = name
            sender.send(made)
    done.wait(60)
    time.sleep(2)  # anything that comes too often would come now
    started.shutdown()
    sender.shutdown()
    return {"messages": seen}


def dead_letters():
    return _poisoned(in_order=False)


def fifo_dead_letters():
    return _poisoned(in_order=True)


def _poisoned(in_order):
    """Four messages, of which the second always fails."""
    seen = []

    class Listener(MessageListener):
        def consume(self, received):
            seen.append(fields(received))
            failed = received.body == b"body-1"
            return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS

    started = PushConsumer(receiving, group, Listener(), {topic: FilterExpression("*")})
    started.startup()
    sender = producer()
    for i in range(4):
        made = message(f"body-{i}")
        if in_order:
            made.message_group = "one"
        sender.send(made)
    end = time.monotonic() + 40
    while len(seen) < 5 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(3)  # anything that comes too often would come now
    started.shutdown()
    sender.shutdown()
    return {"messages": seen}


print(json.dumps(globals()[scenario]()), flush=True)
