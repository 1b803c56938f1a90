"""Points that are booked once though the message comes three times. Needs SQLAlchemy, aiosqlite.

python examples/once.py [ENDPOINT]
"""

import asyncio
import sys
import tempfile

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from popmq import Client
from popmq.idempotence import message_key
from popmq.idempotence.sql import SqlInbox

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
COPIES = 3
folder = tempfile.TemporaryDirectory()
engine = create_async_engine(f"sqlite+aiosqlite:///{folder.name}/points.db")
inbox = SqlInbox(engine, key=message_key())


async def main() -> None:
    async with engine.begin() as setup:
        await setup.execute(text("CREATE TABLE accounts (name TEXT, points INTEGER)"))
        await setup.execute(text("INSERT INTO accounts VALUES ('anna', 0)"))
    await inbox.create_table()
    async with Client(ENDPOINT) as client:
        await client.admin.ensure_group("points", start="first")
        for _ in range(COPIES):  # a sender that tried again without need
            await client.send("purchases", b"anna", keys=["purchase-1"])
        seen = 0
        async for message in client.consumer("purchases", "points"):
            async with inbox.once(message) as turn:
                if turn.first:  # committed together with the key, or not at all
                    change = "UPDATE accounts SET points = points + 30 WHERE name = 'anna'"
                    await turn.connection.execute(text(change))
            await message.ack()
            seen += 1
            if seen == COPIES:
                break
    async with engine.connect() as look:
        points = await look.scalar(text("SELECT points FROM accounts"))
    print(f"came {COPIES} times, {inbox.counts.suppressed} suppressed, anna has {points} points")
    await engine.dispose()
    folder.cleanup()


asyncio.run(main())
