"""Producers and consumers of a soak. Consumers nack at random, and vanish with what they hold."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from soak.ledger import Ledger, Sent, Told

from popmq import Client, Message, PopMQClientError
from popmq.message import ReceivedMessage

INVISIBLE_S = 4.0
NACK_PART = 0.03
VANISH_PART = 0.003
FORGET_PART = 0.002
PAUSE_S = 0.05
CALL_S = 3.0
Endpoint = Callable[[], str]


async def produce(
    topic: str,
    sent: Sent,
    line: str,
    endpoint: Endpoint,
    rng: random.Random,
    gap_s: float,
    stop: asyncio.Event,
    ledger: Ledger,
) -> None:
    """One after the other; what was not answered OK may come or not."""
    number = 0
    fifo = topic.endswith("fifo")
    while not stop.is_set():
        client = Client(endpoint(), send_attempts=1, request_timeout_s=CALL_S, counts=True)
        async with client:
            try:
                while not stop.is_set():
                    body = f"{line}-{number}"
                    number += 1
                    sent.attempted.add(body)
                    message = Message(body=body.encode(), message_group=line if fifo else None)
                    await client.send_many(topic, [message])
                    sent.ok.add(body)
                    sent.lines[line].append(number - 1)
                    await asyncio.sleep(rng.uniform(0, 2 * gap_s))
            except PopMQClientError:
                ledger.failed_calls += 1
                await asyncio.sleep(PAUSE_S)


async def consume(
    topic: str,
    group: str,
    told: Told,
    endpoint: Endpoint,
    rng: random.Random,
    done: asyncio.Event,
    ledger: Ledger,
) -> None:
    while not done.is_set():
        async with Client(endpoint(), request_timeout_s=CALL_S, counts=True) as client:
            try:
                while not done.is_set() and rng.random() > VANISH_PART:
                    await _receive(client, topic, group, told, rng, ledger)
            except PopMQClientError:
                ledger.failed_calls += 1
                await asyncio.sleep(PAUSE_S)


async def _receive(
    client: Client, topic: str, group: str, told: Told, rng: random.Random, ledger: Ledger
) -> None:
    invoked = time.monotonic()
    receiving = client.receive(topic, group, max_messages=16, invisible_s=INVISIBLE_S, wait_s=2.0)
    if rng.random() < VANISH_PART:
        with suppress(TimeoutError):
            await asyncio.wait_for(receiving, rng.uniform(0, 0.1))
        return  # whatever came is left to its time
    messages = await receiving
    told.came([message.body.decode() for message in messages], invoked)
    await _answer(client, messages, told, rng, ledger)


async def _answer(
    client: Client,
    messages: Sequence[ReceivedMessage],
    told: Told,
    rng: random.Random,
    ledger: Ledger,
) -> None:
    for message in messages:
        chance = rng.random()
        if chance < FORGET_PART:
            continue  # until its time is over
        body = message.body.decode()
        try:
            if chance < FORGET_PART + NACK_PART:
                told.nacks += 1
                await client.change_invisible(message, rng.choice([0.0, 0.1, 1.0]))
                continue
            told.ack_tried.add(body)
            await client.ack(message)
            told.acked_at.setdefault(body, time.monotonic())
        except PopMQClientError:
            ledger.failed_calls += 1
