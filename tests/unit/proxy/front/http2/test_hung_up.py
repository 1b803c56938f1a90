"""Does the front know that a client has hung up, before it has read what the client had sent?"""

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from popmq_proxy.front.http2.hung_up import has_hung_up


class Silent(asyncio.Protocol):
    """It does not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


async def both_ends() -> tuple[socket.socket, asyncio.Transport]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    accepted.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(Silent, accepted)
    client.sendall(b"requests that nobody reads")
    return client, transport


async def until(transport: asyncio.Transport) -> bool:
    """Whether it is seen within a second."""
    for _ in range(100):
        if has_hung_up(transport):
            return True
        await asyncio.sleep(0.01)
    return False


async def looked(how: str) -> tuple[bool, bool]:
    """(before, after)."""
    client, transport = await both_ends()
    with client:
        before = has_hung_up(transport)
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if how == "closed by us":
            transport.abort()
            await asyncio.sleep(0.05)
        else:
            client.close()
        after = await until(transport)
    transport.abort()
    return before, after


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["closed", "reset", "closed by us"])
def test_it_is_seen_at_once(run: Callable[..., tuple[bool, bool]], how: str) -> None:
    assert run(looked(how)) == (False, True)
