"""One end of the link without a network: what it writes is kept, what it reads is fed."""

import asyncio
import socket
from typing import Any

from popmq_common.link.frames import FRAME_BYTES_MAX, LENGTH, FrameConnection
from popmq_internal.v1 import link_pb2 as link


class Wire(asyncio.Transport):
    """A transport that keeps everything."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.reading = True
        self.closed = False

    def write(self, data: Any) -> None:
        self.data += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _NoSocket() if name == "socket" else default


class _NoSocket:
    family = socket.AF_INET

    def setsockopt(self, *values: int) -> None:
        return


def connected(greeting_bytes_max: int = FRAME_BYTES_MAX) -> tuple[FrameConnection, Wire]:
    frames, wire = FrameConnection(greeting_bytes_max=greeting_bytes_max), Wire()
    frames.connection_made(wire)
    return frames, wire


def all_frames(data: bytes | bytearray) -> list[link.Frame]:
    """Frames one after the other, nothing else."""
    found, at = [], 0
    while at < len(data):
        (size,) = LENGTH.unpack_from(data, at)
        found.append(link.Frame.FromString(bytes(data[at + LENGTH.size : at + LENGTH.size + size])))
        at += LENGTH.size + size
    return found
