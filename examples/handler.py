"""A handler, and what becomes of a message by what it does.

popmq run examples.handler:app        or        python examples/handler.py [ENDPOINT]
"""

import asyncio
import sys
from dataclasses import dataclass

from popmq import App, Json, ReceivedMessage, Reject, Retry

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 and ":" in sys.argv[1] else "127.0.0.1:8081"
app = App(ENDPOINT)
app.group("billing", start="first")
paid: set[str] = set()
busy = True


@dataclass
class Order:
    number: str
    price: int


class OrderJson:
    """How an order is written: any class with these two methods will do."""

    def encode(self, value: Order) -> bytes:
        return Json().encode({"number": value.number, "price": value.price})

    def decode(self, body: bytes) -> Order:
        return Order(**Json().decode(body))


@app.handler("orders", "billing", serializer=OrderJson(), concurrency=4, retry=[1, 10, 60])
async def bill(order: Order, message: ReceivedMessage) -> None:
    global busy
    if order.price < 0:
        raise Reject("a price below 0")  # to the dead letters of billing
    if order.number == "2" and busy:
        busy = False
        raise Retry(0.2, "the bank is busy", counted=False)
    paid.add(order.number)
    print(f"order {order.number} is paid, attempt {message.delivery_attempt}")
    if paid == {"1", "2"}:
        app.stop()  # a service would run until SIGTERM


@app.after_startup
async def place_orders() -> None:
    producer = app.client.producer(OrderJson())
    for order in (Order("1", 30), Order("2", 40), Order("3", -1)):
        await producer.send("orders", order, keys=order.number)


if __name__ == "__main__":
    asyncio.run(app.run())
