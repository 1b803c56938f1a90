# place_order.py
"""Places one order: python place_order.py NUMBER ITEM"""

import asyncio
import sys

from popmq import Client, Json


async def place(number: str, item: str) -> None:
    async with Client("127.0.0.1:8081") as client:
        producer = client.producer(Json())
        await producer.send("orders", {"number": number, "item": item}, keys=number)
    print("placed order", number)


asyncio.run(place(sys.argv[1], sys.argv[2]))
