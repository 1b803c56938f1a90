"""The official Python client, one command after the other; runs in the client's own environment.

python signed.py; a JSON line on stdin is a command, a JSON line on stdout what it led to
(tests/compat/session.py).
"""

import json
import sys
import time

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

WAIT_S = 2
SLOW_S = 2
INVISIBLE_S = 30
clients = {}
seen = {}
held = {}
receipts = {}


class Checker(TransactionChecker):
    def check(self, received):
        return TransactionResolution.COMMIT


class Listener(MessageListener):
    def __init__(self, bodies):
        self.bodies = bodies

    def consume(self, received):
        body = received.body.decode()
        self.bodies.append(body)
        if body == "slow":
            time.sleep(SLOW_S)
        return ConsumeResult.SUCCESS


def start(name, kind, endpoint, topic, group, user=None, secret=None):
    credentials = Credentials(user, secret) if user else Credentials()
    at = ClientConfiguration(endpoint, credentials)
    topics = {topic: FilterExpression("*")}
    if kind == "producer":
        client = Producer(at, (topic,))
    elif kind == "transactional":
        client = Producer(at, (topic,), checker=Checker())
    elif kind == "simple":
        client = SimpleConsumer(at, group, topics, await_duration=WAIT_S)
    else:
        client = PushConsumer(at, group, Listener(seen.setdefault(name, [])), topics)
    client.startup()
    clients[name] = client


def message(topic, body):
    made = Message()
    made.topic, made.body = topic, body.encode()
    return made


def send(name, topic, body, delay_s=0):
    made = message(topic, body)
    if delay_s:
        made.delivery_timestamp = int(time.time()) + delay_s
    receipts[name] = clients[name].send(made)


def recall(name, topic):
    clients[name].recall_message(topic, receipts[name].recall_handle)


def transact(name, topic, body):
    begun = clients[name].begin_transaction()
    clients[name].send(message(topic, body), begun)
    begun.commit()


def receive(name):
    found = clients[name].receive(32, INVISIBLE_S) or []
    if found:
        held[name] = found
    return [one.body.decode() for one in found]


def change(name):
    for one in held[name]:
        clients[name].change_invisible_duration(one, INVISIBLE_S)


def ack(name):
    for one in held[name]:
        clients[name].ack(one)


def taken(name):
    return seen[name]


def stop(name):
    clients.pop(name).shutdown()


COMMANDS = [start, send, recall, transact, receive, change, ack, taken, stop]
BY_NAME = {command.__name__: command for command in COMMANDS}
for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = {"value": BY_NAME[asked.pop("do")](**asked)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
