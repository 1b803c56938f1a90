"""Waiting for sockets: until one can be read, and for the connections that come to one."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

from popmq_common.process.logs import Log

ACCEPT_PAUSE_S: Final = 0.1
"""After an accept that failed: no descriptors are left, perhaps."""
Arriving: TypeAlias = Callable[[], Awaitable[tuple[socket.socket, Any]]]
"""The next connection and its peer's address, (host, port, …). After an `OSError` it is asked
again."""


async def readable(one: socket.socket) -> None:
    """Until there is something to read, or its other end is closed."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def can_read() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(one, can_read)
    try:
        await ready
    finally:
        loop.remove_reader(one)


async def connections(source: Arriving, log: Log) -> AsyncIterator[tuple[socket.socket, Any]]:
    """What comes from there, for ever."""
    while True:
        try:
            found = await source()
        except OSError as failed:
            log.warning("accept.failed", reason=str(failed))
            await asyncio.sleep(ACCEPT_PAUSE_S)
            continue
        yield found
