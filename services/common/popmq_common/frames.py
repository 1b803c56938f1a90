"""The link's frames: a 4-byte big-endian length, then a `Frame` of that many bytes.

Batching is natural: what is put while a frame is being written goes into the next one. A lone
message leaves at once, under load one frame carries many, and nobody waits for a timer.
"""

import asyncio
from struct import Struct
from typing import Final

from popmq_common.errors import BadRequest, TooManyRequests
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

FRAME_BYTES_MAX: Final = 64 * MiB
BATCH_BYTES: Final = 1 * MiB
"""A frame is closed when it has grown past this; one message alone may be larger."""
PENDING_MAX: Final = 32_768
"""Messages put but not yet written; more are refused. Above the calls a broker takes of one proxy,
so that a reply always has room."""
LENGTH = Struct(">I")


async def read_frame(reader: asyncio.StreamReader) -> link.Frame | None:
    """The next frame; None at the end of the stream. Raises `BadRequest` for an impossible one."""
    try:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if size > FRAME_BYTES_MAX:
            raise BadRequest(reason=f"a frame of {size} bytes, the limit is {FRAME_BYTES_MAX}")
        return link.Frame.FromString(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def encode_frame(frame: link.Frame) -> bytes:
    data = frame.SerializeToString()
    return LENGTH.pack(len(data)) + data


class FrameWriter:
    """Gathers calls and replies of one connection and writes them as frames."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._pending: list[link.Call | link.Reply] = []
        self._filled = asyncio.Event()

    def put(self, message: link.Call | link.Reply) -> None:
        """Raises `TooManyRequests` when the other side does not keep up."""
        if len(self._pending) >= PENDING_MAX:
            raise TooManyRequests(what="messages waiting for the link", limit=PENDING_MAX)
        self._pending.append(message)
        self._filled.set()

    async def run(self) -> None:
        """Write until cancelled or the connection breaks (`ConnectionError`)."""
        while True:
            await self._filled.wait()
            self._writer.write(encode_frame(self._take()))
            await self._writer.drain()

    def _take(self) -> link.Frame:
        frame = link.Frame()
        size = 0
        taken = 0
        for message in self._pending:
            if isinstance(message, link.Call):
                frame.calls.append(message)
            else:
                frame.replies.append(message)
            taken += 1
            size += message.ByteSize()
            if size >= BATCH_BYTES:
                break
        del self._pending[:taken]
        if not self._pending:
            self._filled.clear()
        return frame
