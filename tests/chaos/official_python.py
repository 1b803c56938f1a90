"""Load of the official Python client, in its own environment.

python official_python.py ENDPOINTS TOPIC FIFO_TOPIC GROUP FIFO_GROUP FILE
"""

import json
import sys
import threading
import time

from load import FIFO_GAP_S, FIFO_LINES, GAP_S, INVISIBLE_S, PAUSE_S, POLL_S, RECEIVE_MAX
from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

_, endpoints, topic, fifo_topic, group, fifo_group, file = sys.argv
configuration = ClientConfiguration(endpoints, Credentials())
out = open(file, "a", buffering=1)  # noqa: SIM115 - as long as the process lives
writing = threading.Lock()
draining, done = threading.Event(), threading.Event()


def note(what, began_s, body, attempt=0, error=""):
    event = {"what": what, "began_s": began_s, "ended_s": time.time(), "body": body}
    line = json.dumps({**event, "attempt": attempt, "error": error}) + "\n"
    with writing:
        out.write(line)


def call(what, body, ask):
    began_s = time.time()
    try:
        ask()
    except Exception as failed:
        note(what, began_s, body, error=repr(failed)[:300])
        return False
    note(what, began_s, body)
    return True


def message(to, body, name=None):
    made = Message()
    made.topic = to
    made.body = body.encode()
    if name:
        made.message_group = name
    return made


def send(sender):
    number = 0
    while not draining.is_set():
        body = f"python/n0/{number}"
        number += 1
        call("send", body, lambda body=body: sender.send(message(topic, body)))
        time.sleep(GAP_S)


def send_in_order(sender, line):
    number = 0
    while not draining.is_set():
        body = f"python/f{line}/{number}"
        made = message(fifo_topic, body, f"python-{line}")
        if call("send", body, lambda made=made: sender.send(made)):
            number += 1
        time.sleep(FIFO_GAP_S)


def receive(started):
    while not done.is_set():
        began_s = time.time()
        try:
            messages = started.receive(RECEIVE_MAX, INVISIBLE_S) or []
        except Exception as failed:
            note("receive", began_s, "", error=repr(failed)[:300])
            time.sleep(PAUSE_S)
            continue
        for one in messages:
            note("receive", began_s, one.body.decode(), one.delivery_attempt)
        for one in messages:
            call("ack", one.body.decode(), lambda one=one: started.ack(one))


def consumer(of_group, of_topic):
    made = SimpleConsumer(
        configuration, of_group, {of_topic: FilterExpression("*")}, await_duration=POLL_S
    )
    made.startup()
    return made


def main():
    sender = Producer(configuration, (topic, fifo_topic))
    sender.startup()
    free, in_order = consumer(group, topic), consumer(fifo_group, fifo_topic)
    work = [(send, sender), (receive, free), (receive, in_order), (receive, in_order)]
    work += [(send_in_order, sender, line) for line in range(FIFO_LINES)]
    threads = [threading.Thread(target=run, args=arguments) for run, *arguments in work]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    draining.set()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join()
    for started in (sender, free, in_order):
        started.shutdown()


main()
