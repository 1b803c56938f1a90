"""An order shop that works and fails: topics, groups, producers, and handlers.

orders     billing takes each; some cards fail, and the message ends in the dead letters
orders     reports: nobody consumes, so it is stuck
parcels    shipping takes the steps of each parcel in order
reminders  mailing takes them when their delay is over
payments   sent in transactions; now and then one is left open
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Final

from popmq import Client, ReceivedMessage
from popmq.errors import PopMQClientError

REASONS: Final = (
    "card declined: limit reached",
    "address not known: no such postcode",
    "timeout of the bank after 30 s",
)
FAILING_RATIO: Final = 0.15
OPEN_RATIO: Final = 0.1
STEPS: Final = ("packed", "handed over", "delivered")
ORDER_S: Final = 0.4
RECEIVE_S: Final = 5.0
PAUSE_S: Final = 1.0
FIRST_ORDERS: Final = 40
Handle = Callable[[Client, ReceivedMessage], Awaitable[None]]


async def furnish(client: Client) -> None:
    """Topics and groups. Raises the errors of `popmq.errors`."""
    admin = client.admin
    await admin.ensure_topic("orders", type="NORMAL", queues=4)
    await admin.ensure_topic("parcels", type="FIFO", queues=4)
    await admin.ensure_topic("reminders", type="DELAY", queues=4)
    await admin.ensure_topic("payments", type="TRANSACTION", queues=4)
    await admin.ensure_group("billing", start="first", max_attempts=2, retry=[3.0])
    await admin.ensure_group("shipping", start="first", fifo=True)
    await admin.ensure_group("mailing", start="first")
    await admin.ensure_group("reports", start="first")
    await client.receive("orders", "reports", max_messages=1, wait_s=0)  # from here on it counts


class Shop:
    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client, self._chance = client, chance
        self._number = 1000

    async def run(self) -> None:
        """Until it is cancelled."""
        for _ in range(FIRST_ORDERS):
            await self._order()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._orders())
            for topic, name, handle in (
                ("orders", "billing", self._bill),
                ("parcels", "shipping", self._ship),
                ("reminders", "mailing", self._mail),
            ):
                group.create_task(self._consume(topic, name, handle))

    async def _orders(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * ORDER_S)
            try:
                await self._order()
            except PopMQClientError:
                await asyncio.sleep(PAUSE_S)  # the server is asked again later

    async def _order(self) -> None:
        self._number += 1
        key, chance = f"order-{self._number}", self._chance
        total = round(chance.uniform(5, 300), 2)
        body = json.dumps({"order": self._number, "total": total, "city": "Hamburg"}).encode()
        tag = "gift" if chance.random() < 0.2 else "plain"
        await self._client.send("orders", body, keys=[key], tag=tag, properties={"shop": "north"})
        if self._number % 3 == 0:
            for step in STEPS:
                text = json.dumps({"order": self._number, "step": step}).encode()
                await self._client.send("parcels", text, keys=[key], message_group=key)
        if self._number % 4 == 0:
            text = json.dumps({"remind": self._number}).encode()
            delay_s = chance.uniform(10, 90)
            await self._client.send("reminders", text, keys=[key], delay_s=delay_s)
        if self._number % 5 == 0:
            await self._pay(key, total)

    async def _pay(self, key: str, total: float) -> None:
        body = json.dumps({"paid": total}).encode()
        payment = await self._client.transactions.send("payments", body, keys=[key])
        if self._chance.random() >= OPEN_RATIO:
            await payment.commit()

    async def _consume(self, topic: str, group: str, handle: Handle) -> None:
        while True:
            try:
                for message in await self._client.receive(topic, group, wait_s=RECEIVE_S):
                    await handle(self._client, message)
            except PopMQClientError:
                await asyncio.sleep(PAUSE_S)

    async def _bill(self, client: Client, message: ReceivedMessage) -> None:
        """Whether a card fails depends on the order: the second attempt fails like the first."""
        chance = random.Random(message.keys[0])
        await asyncio.sleep(chance.uniform(0.01, 0.1))
        if chance.random() < FAILING_RATIO:
            await client.nack(message, reason=chance.choice(REASONS))
        else:
            await client.ack(message)

    async def _ship(self, client: Client, message: ReceivedMessage) -> None:
        await asyncio.sleep(self._chance.uniform(0.05, 0.4))
        await client.ack(message)

    async def _mail(self, client: Client, message: ReceivedMessage) -> None:
        await client.ack(message)
