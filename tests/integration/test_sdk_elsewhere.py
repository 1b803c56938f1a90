"""A server that is paused or cut off keeps its connections: the SDK goes to the next one."""

import asyncio
from pathlib import Path

from integration.served import serving

from popmq import Client


async def test_after_a_time_out_the_next_server_is_asked(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(-1)
        finally:
            writer.close()

    paused = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = paused.sockets[0].getsockname()[1]
    async with (
        serving(tmp_path) as endpoint,
        Client(f"127.0.0.1:{port};{endpoint}", request_timeout_s=1.4, send_attempts=2) as client,
    ):
        assert (await client.send("t", b"x")).message_id
    paused.close()
