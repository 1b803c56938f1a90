"""The official client with credentials: sends one message and receives it.

python signing.py ENDPOINT TOPIC GROUP ACCESS_KEY, and the secret as the variable SECRET
"""

import json
import os
import sys
from typing import Any

import rocketmq

_, endpoint, topic, group, access_key = sys.argv
credentials = rocketmq.Credentials(access_key, os.environ["SECRET"])
configuration = rocketmq.ClientConfiguration(endpoint, credentials)


def sent() -> Any:
    producer = rocketmq.Producer(configuration, (topic,))
    producer.startup()
    message = rocketmq.Message()
    message.topic, message.body = topic, b"signed"
    receipt = producer.send(message)
    producer.shutdown()
    return receipt.message_id


def received() -> Any:
    consumer = rocketmq.SimpleConsumer(
        configuration, group, {topic: rocketmq.FilterExpression("*")}, 10
    )
    consumer.startup()
    (message,) = consumer.receive(1, 20)
    consumer.ack(message)
    consumer.shutdown()
    return message.message_id


try:
    print(json.dumps({"sent": sent(), "received": received()}), flush=True)
except Exception as failed:
    print(json.dumps({"error": f"{type(failed).__name__}: {failed}"}), flush=True)
