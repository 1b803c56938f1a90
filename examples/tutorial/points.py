# points.py
"""Gives 10 points for each order, in a database."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from popmq import App, Json
from popmq.idempotence import message_key
from popmq.idempotence.sql import SqlInbox

engine = create_async_engine("sqlite+aiosqlite:///shop.db")
inbox = SqlInbox(engine, key=message_key())

app = App("127.0.0.1:8081")
app.group("points")


@app.handler("orders", "points", serializer=Json(), idempotent=inbox)
async def give(order: dict[str, str]) -> None:
    add = text("INSERT INTO points VALUES (:number, 10)")
    await inbox.connection.execute(add, {"number": order["number"]})
    total = await inbox.connection.scalar(text("SELECT sum(points) FROM points"))
    print("order", order["number"], "brings the points to", total, flush=True)
