"""The official Python client and PopMQ's in one process: each sends, the other receives.

python both.py ENDPOINT TOPIC GROUP FIRST SECOND; the modules are imported in that order.
"""

import importlib
import json
import sys
from typing import Any

_, endpoint, topic, group, *order = sys.argv
modules = {name: importlib.import_module(name) for name in order}
official, popmq = modules["rocketmq"], modules["popmq.sync"]
configuration = official.ClientConfiguration(endpoint, official.Credentials())


def official_send(body: str) -> None:
    producer = official.Producer(configuration, (topic,))
    producer.startup()
    message = official.Message()
    message.topic, message.body = topic, body.encode()
    producer.send(message)
    producer.shutdown()


def official_receive() -> Any:
    consumer = official.SimpleConsumer(
        configuration, group, {topic: official.FilterExpression("*")}, 10
    )
    consumer.startup()
    (message,) = consumer.receive(1, 20)
    consumer.ack(message)
    consumer.shutdown()
    return message.body.decode()


official_send("from the official client")
with popmq.Client(endpoint) as client:
    (received,) = client.consumer(topic, group).receive()
    received.ack()
    client.producer().send(topic, b"from ours")
print(json.dumps([received.body.decode(), official_receive()]), flush=True)
