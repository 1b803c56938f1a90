"""A reminder for later, and one that is taken back.

python examples/delay.py [ENDPOINT]
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from popmq import Client

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"


async def main() -> None:
    async with Client(ENDPOINT) as client:
        await client.admin.ensure_group("people", start="first")
        producer = client.producer()
        await producer.send("reminders", b"tea is ready", delay_s=1)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        receipt = await producer.send("reminders", b"call back", deliver_at=tomorrow)
        await client.recall("reminders", receipt.recall_handle)
        async for message in client.consumer("reminders", "people"):
            print(message.body.decode())
            await message.ack()
            break


asyncio.run(main())
