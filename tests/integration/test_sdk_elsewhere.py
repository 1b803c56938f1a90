"""A server that is paused or cut off keeps its connections: the SDK goes to the next one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from integration.served import serving

from popmq import Client


@asynccontextmanager
async def before(endpoint: str, goes: asyncio.Event) -> AsyncIterator[str]:
    """Another address of the server, through which bytes go while `goes` is set."""
    host, _, port = endpoint.partition(":")
    piping: set[asyncio.Task[None]] = set()

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await goes.wait()
                sink.write(data)
        finally:
            sink.close()

    async def connected(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, int(port))
        for reader, writer in ((source, to_server), (from_server, sink)):
            task = asyncio.create_task(pipe(reader, writer))
            piping.add(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for task in piping:
            task.cancel()
        await asyncio.gather(*piping, return_exceptions=True)


async def test_after_a_time_out_the_next_server_is_asked(tmp_path: Path) -> None:
    goes = asyncio.Event()
    goes.set()
    async with (
        serving(tmp_path) as endpoint,
        before(endpoint, goes) as paused,
        Client(f"{paused};{endpoint}", request_timeout_s=5, send_attempts=2) as client,
    ):
        await client.send("t", b"x")
        goes.clear()
        assert (await client.send("t", b"y")).message_id
