"""What the supervisor and a worker say to each other: JSON documents, one a line, over a socket
pair; and connections of clients, over another one.

    supervisor   {"do": "figures"}   say what your metrics are
                 {"do": "move", "share": part}    part with a connection that has this part of
                                                  your work, or less
                 {"do": "drain"}     serve no clients any more
                 {"do": "end"}       stop
                 {"do": …}           what else this kind of worker can do
    worker       {"failed": text}, {"ready": true}, {"figures": text}, {"drained": true},
                 {"move": the client's address, or nothing},
                 {"open": connections, "taken": connections so far}, {"busy": part of a core}

The end of one is the end of its side of both pairs: a worker stops when its supervisor is gone.
"""

import asyncio
import json
import os
import socket
from errno import EMFILE
from typing import Any, Final

from popmq_common.process.sockets import readable
from popmq_common.units import MiB

LINE_BYTES_MAX: Final = 64 * MiB
"""A page of metrics with all its rows has a tenth of that."""


class Channel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=LINE_BYTES_MAX))

    def say(self, **fields: Any) -> None:
        """Nothing when nobody is there any more."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(fields).encode() + b"\n")

    async def next(self) -> dict[str, Any] | None:
        """None: the other one is gone."""
        try:
            line = await self._reader.readline()
        except OSError:
            return None
        found: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return found

    def close(self) -> None:
        self._writer.close()


def hand_over(channel: socket.socket, connection: socket.socket) -> None:
    """Raises `BlockingIOError` when the worker does not take those that wait, `OSError` when it is
    gone."""
    socket.send_fds(channel, [b"c"], [connection.fileno()])


class HandedOver:
    """Connections as a worker gets them."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self.taken = 0

    async def next(self) -> tuple[socket.socket, Any]:
        """A client's connection and its address; never when the supervisor is gone. Raises
        `OSError` when this process may not open one more; that connection is closed."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
            except BlockingIOError:
                await readable(self._channel)
                continue
            if not data:
                await asyncio.get_running_loop().create_future()
            self.taken += 1
            if not descriptors:
                raise OSError(EMFILE, os.strerror(EMFILE))
            accepted = socket.socket(fileno=descriptors[0])
            try:
                return accepted, accepted.getpeername()
            except OSError:  # the client has gone since
                accepted.close()
