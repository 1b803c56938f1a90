"""A consumer that dies, and what an ack then says. Takes some ten seconds, the smallest lease.

python examples/leases.py [ENDPOINT]
"""

import asyncio
import sys

from popmq import Client, InvalidReceiptHandle

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"


async def main() -> None:
    async with Client(ENDPOINT) as client:
        await client.admin.ensure_group("packers", start="first")
        await client.send("parcels", b"parcel 7")
        (held,) = await client.receive("parcels", "packers", invisible_s=10)
        # Whoever holds it crashes here, or is too slow, and nothing renews the lease.
        (again,) = await client.receive("parcels", "packers", invisible_s=10, wait_s=20)
        print(again.body.decode(), "again, attempt", again.delivery_attempt)
        try:
            await client.ack(held)
        except InvalidReceiptHandle:
            print("the first one is told that it came too late")
        await client.ack(again)
        await client.ack(again)  # an ack whose answer was lost may be repeated
        print("done")


asyncio.run(main())
