"""Both ends of a connection without a network: bytes in, bytes out."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from popmq_common.link.frames import LENGTH
from popmq_common.link.protowire import sized, varint


class Wire(asyncio.Transport):
    """Hands on what is written, and remembers nothing."""

    def __init__(self, written: Callable[[bytes], None]) -> None:
        super().__init__()
        self._written = written

    def write(self, data: Any) -> None:
        self._written(data)

    def writelines(self, parts: Any) -> None:
        self._written(b"".join(parts))

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def close(self) -> None:
        return

    abort = close

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return NoSocket() if name == "socket" else default


class NoSocket:
    family = socket.AF_INET

    def getsockopt(self, *values: int) -> bytes:
        return b"\1"  # it is connected

    def setsockopt(self, *values: int) -> None:
        return


class StoringBroker:
    """Answers every send of the link at once. Ids are those that a link gives: 1, 2, 3, …"""

    def __init__(self, answer: Callable[[bytes], None]) -> None:
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._last_id = 0

    def written(self, frame: bytes) -> None:
        self._loop.call_soon(self._answer, self._replies(frame))

    def _replies(self, frame: bytes) -> bytes:
        parts = []
        at = LENGTH.size
        while at < len(frame):
            at += 1
            shift = size = 0
            while True:
                byte = frame[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            at += size
            self._last_id += 1
            parts.append(_reply(self._last_id))
        entries = b"".join(parts)
        return LENGTH.pack(len(entries)) + entries


def _reply(call_id: int) -> bytes:
    """link.Reply(id, send=SendReply(queue_id=3, queue_offset=1234567)) as an entry of a frame."""
    return sized(b"\x12", b"\x08" + varint(call_id) + b"\x52\x06\x08\x03\x10\x87\xad\x4b")
