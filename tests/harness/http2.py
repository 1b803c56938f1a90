"""Connections of the HTTP/2 front without a network, for tests that write frames by hand."""

import asyncio
import errno
from typing import Any

from popmq_proxy.front.client_budgets import ClientBudgets
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets.limits import Http2Limits
from popmq_proxy.front.http2.connection import Http2Connection
from popmq_proxy.front.http2.open_streams import App
from popmq_proxy.front.http2.shared import Shared

Frame = tuple[int, int, int, bytes]
"""(type, flags, stream, payload)"""


class Wire(asyncio.Transport):
    """The client's end: what was written, and what became of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.aborted = False
        self.hung_up = False
        self.reads = True
        self.held_bytes = 0
        """What the socket has not taken."""
        self.extra: dict[str, object] = {}

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.extra.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "nothing may be written behind the end"
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.held_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self.hung_up:
            raise OSError(errno.ENOTCONN, "not connected")
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def take(self) -> list[Frame]:
        """Since the last call."""
        found, at = [], 0
        while at < len(self.written):
            high, low, kind, flags, number = wire.HEAD.unpack_from(self.written, at)
            end = at + wire.HEAD_BYTES + (high << 8 | low)
            found.append((kind, flags, number, self.written[at + wire.HEAD_BYTES : end]))
            at = end
        self.written = b""
        return found


def shared(
    *,
    calls_max: int = 1_000,
    received_bytes_max: int = 1 << 24,
    unread_bytes_max: int = 1 << 24,
    connections_max: int = 1_000,
    **limits: Any,
) -> Shared:
    budgets = ClientBudgets(
        calls_max=calls_max,
        received_bytes_max=received_bytes_max,
        unread_bytes_max=unread_bytes_max,
    )
    return Shared(Http2Limits(**limits), budgets, connections_max)


class Client:
    """A connection and the client's end of it."""

    def __init__(self, app: App, among: Shared, host: str = "1.2.3.4") -> None:
        self.transport = Wire()
        self.ended = 0
        address = among.join(host)
        assert address is not None
        self.connection = Http2Connection(app, among, address, (host, 5), self._end)
        self.connection.connection_made(self.transport)

    def _end(self, _: Http2Connection) -> None:
        self.ended += 1

    async def give(self, *data: bytes) -> None:
        """Each piece as it comes from a socket, then some turns of the loop."""
        for piece in data:
            self.connection.data_received(piece)
        await turns()

    def frames(self, stream_id: int) -> list[tuple[int, int, bytes]]:
        """(type, flags, payload) of one stream since the last look at any."""
        return [
            (kind, flags, data)
            for kind, flags, number, data in self.transport.take()
            if number == stream_id
        ]

    def goaway_code(self) -> int | None:
        for kind, _, _, payload in self.transport.take():
            if kind == wire.GOAWAY:
                code: int = wire.NUMBER.unpack_from(payload, 4)[0]
                return code
        return None


async def turns(count: int = 12) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
