"""Send a message, receive it, ack it.

python examples/hello.py [ENDPOINT]
"""

import asyncio
import sys

from popmq import Client

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"


async def main() -> None:
    async with Client(ENDPOINT) as client:
        await client.admin.ensure_group("hello-readers", start="first")
        receipt = await client.producer().send("hello", b"hello, world", tag="greeting")
        print(f"stored at offset {receipt.queue_offset}")
        async for message in client.consumer("hello", "hello-readers"):
            print(message.body.decode(), "attempt", message.delivery_attempt)
            await message.ack()
            break


asyncio.run(main())
