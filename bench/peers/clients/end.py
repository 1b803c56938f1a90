"""What the load needs of a client, and how a message is made."""

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

PREFETCH: Final = 256
"""So many messages a consumer holds, or asks for in a call, with every client."""
GROUP: Final = "load"
POLL_S: Final = 0.2
"""So long a receive waits, so that its end is noticed."""
SIZE_BYTES: Final = 1024
_HEAD: Final = struct.Struct(">IQQ")
_REST: Final = (bytes(range(256)) * 4)[: SIZE_BYTES - _HEAD.size]


class Stamp(NamedTuple):
    """The head of a body: who sent it, its number there, and when."""

    process: int
    number: int
    sent_ns: int
    """Of the machine's monotonic clock."""


def body(process: int, number: int) -> bytes:
    return _HEAD.pack(process, number, time.monotonic_ns()) + _REST


def stamp(received: bytes) -> Stamp:
    """Raises `ValueError` for a body that was not sent so."""
    if received[_HEAD.size :] != _REST:
        raise ValueError("the body is not what was sent")
    return Stamp(*_HEAD.unpack_from(received))


Take = Callable[[bytes], None]


class End(Protocol):
    """A `place` is a stream, a queue, or a topic and its group."""

    async def create(self, place: str) -> None: ...
    async def open(self, place: str) -> None:
        """Connects; what follows is about this place."""

    async def send(self, body: bytes) -> None:
        """Returns when it is confirmed."""

    async def send_many(self, bodies: Sequence[bytes]) -> None: ...
    async def receive(self, take: Take, over: asyncio.Event, *, steady: bool) -> None:
        """Takes and acks each message until `over` is set. `steady`: few come at a time, and the
        latency counts."""

    async def close(self) -> None: ...
