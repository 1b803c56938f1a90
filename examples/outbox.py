"""An order in the database and its message: both, or none. Needs SQLAlchemy.

The message is stored first, out of sight. When the database has committed, it is delivered; when
the process dies in between, the server asks, and the database knows the answer.

python examples/outbox.py [ENDPOINT] [DATABASE URL]
"""

import asyncio
import sys

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from popmq import Client, ReceivedMessage, Resolution

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
engine = create_engine(sys.argv[2] if len(sys.argv) > 2 else "sqlite://")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[str] = mapped_column(primary_key=True)


def is_stored(number: str) -> bool:
    with Session(engine) as session:
        return session.scalar(select(Order).where(Order.number == number)) is not None


async def check(message: ReceivedMessage) -> Resolution:
    """The server asks what became of a message that nobody settled."""
    return Resolution.COMMIT if is_stored(message.keys[0]) else Resolution.ROLLBACK


async def place(client: Client, number: str, *, fail: bool = False) -> None:
    async with client.transactions.begin("placed", number.encode(), keys=[number]):
        with Session(engine) as session, session.begin():
            session.add(Order(number=number))
            if fail:
                raise ValueError("the card was refused")


async def main() -> None:
    Base.metadata.create_all(engine)
    async with Client(ENDPOINT) as client:
        await client.admin.ensure_group("warehouse", start="first")
        await client.transactions.answer("placed", check)
        await place(client, "1")
        try:
            await place(client, "2", fail=True)
        except ValueError as refused:
            print(f"order 2: {refused}")
        half = await client.transactions.send("placed", b"3", keys=["3"], ask_after_s=1)
        with Session(engine) as session, session.begin():
            session.add(Order(number="3"))
        del half  # as if the process had died here: the server will ask
        placed = set()
        async for message in client.consumer("placed", "warehouse"):
            placed.add(message.body.decode())
            await message.ack()
            if placed == {"1", "3"}:
                break
        print("placed", *sorted(placed))


asyncio.run(main())
