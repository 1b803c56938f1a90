# make_tables.py
"""Creates the tables of points.py. Run it once."""

import asyncio

from sqlalchemy import text

from points import engine, inbox


async def make() -> None:
    await inbox.create_table()
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE points (number TEXT, points INTEGER)"))
    await engine.dispose()


asyncio.run(make())
