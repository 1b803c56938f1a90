"""Order within each account, accounts side by side.

python examples/fifo.py [ENDPOINT]
"""

import asyncio
import sys

from popmq import App, Message, ReceivedMessage

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
ACCOUNTS = ("anna", "bert", "carl")
app = App(ENDPOINT)
app.topic("bookings", type="FIFO")
app.group("ledger", start="first", fifo=True)
booked: dict[str, list[str]] = {account: [] for account in ACCOUNTS}


@app.handler("bookings", "ledger", concurrency=8)
async def book(message: ReceivedMessage) -> None:
    account = message.message_group or ""
    await asyncio.sleep(0.01)
    booked[account].append(message.body.decode())
    if all(len(done) == 5 for done in booked.values()):
        app.stop()


@app.on_startup
async def place_bookings() -> None:
    bookings = [
        Message(body=str(number).encode(), message_group=account)
        for number in range(5)
        for account in ACCOUNTS
    ]
    await app.client.producer().send_many("bookings", bookings)


async def main() -> None:
    await app.run()
    for account, done in booked.items():
        print(account, *done)


asyncio.run(main())
