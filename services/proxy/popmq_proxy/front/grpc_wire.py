"""gRPC over HTTP/2, the part above frames: length-prefixed messages, time-outs, statuses.

    message    1 byte compressed? · 4 bytes length, big-endian · the message
    timeout    up to 8 digits and a unit: H M S m u n
    status     grpc-status and grpc-message, percent-encoded, as trailers; without a message they
               are headers and trailers at once

Source: gRPC over HTTP2 (PROTOCOL-HTTP2.md).
"""

import zlib
from enum import IntEnum
from io import BytesIO
from struct import Struct
from typing import Final

PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = 5
PIECE_BYTES: Final = 1 << 18
"""Of a message, unpacked in one go."""
PACKED_BYTES: Final = 1 << 16
"""Of a packed message, looked at in one go: what is not used of it is copied each time."""
_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_GZIP_WINDOW: Final = 31  # zlib's way to say gzip


class Code(IntEnum):
    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class GrpcError(Exception):
    """An RPC that ends with a status other than OK."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class MessageReader:
    """Chunks of a body → the messages in it, wherever the chunks are cut."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def feed(self, chunk: bytes) -> None:
        self._held += chunk

    def next(self) -> tuple[bool, bytes] | None:
        """(is it packed, the next message), if it is whole. Raises `GrpcError`."""
        if len(self._held) < PREFIX_BYTES:
            return None
        packed, size = PREFIX.unpack_from(self._held)
        if size > self._bytes_max:
            text = f"a message of {size} bytes, the limit is {self._bytes_max}"
            raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
        end = PREFIX_BYTES + size
        if len(self._held) < end:
            return None
        with memoryview(self._held) as held:
            message = bytes(held[PREFIX_BYTES:end])
        del self._held[:end]
        return bool(packed), message

    def end(self) -> None:
        """The body is over. Raises `GrpcError` when it ended inside a message."""
        if self._held:
            raise GrpcError(Code.INTERNAL, "the request ended in the middle of a message")


class Unpacking:
    """One message that is packed, piece by piece."""

    def __init__(self, message: bytes, encoding: str, bytes_max: int) -> None:
        """`encoding` is the request's grpc-encoding. Raises `GrpcError`."""
        if encoding in ("", "identity"):
            raise GrpcError(Code.INTERNAL, "a compressed message without grpc-encoding")
        if encoding != "gzip":
            text = f"grpc-encoding {encoding!r} is not known here, gzip is"
            raise GrpcError(Code.UNIMPLEMENTED, text)
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)
        self._packed = message
        self._at = 0
        self._unpacked = BytesIO()
        self._left = self._bytes_max = bytes_max

    @property
    def unpacked_bytes(self) -> int:
        return self._bytes_max - self._left

    def step(self) -> bool:
        """Unpack up to `PIECE_BYTES`; True: that was all. Raises `GrpcError`."""
        inflater = self._inflater
        packed = inflater.unconsumed_tail
        if not packed:
            packed = self._packed[self._at : self._at + PACKED_BYTES]
            self._at += len(packed)
        try:
            piece = inflater.decompress(packed, PIECE_BYTES)
        except zlib.error as wrong:
            raise GrpcError(Code.INVALID_ARGUMENT, f"a message that is no gzip: {wrong}") from wrong
        self._unpacked.write(piece)
        self._left -= len(piece)
        if self._left < 0:
            text = f"a message of more than {self._bytes_max} bytes when unpacked"
            raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
        if inflater.eof:
            if inflater.unused_data or self._at < len(self._packed):
                raise GrpcError(Code.INVALID_ARGUMENT, "bytes behind the end of a gzip message")
        elif not packed and not piece:
            raise GrpcError(Code.INVALID_ARGUMENT, "a gzip message that ends too early")
        return inflater.eof

    def message(self) -> bytes:
        """All of it: what is held already, not a copy."""
        return self._unpacked.getvalue()


def only_message(body: bytes) -> bytes | None:
    """The message, if `body` is exactly one that is not compressed."""
    if len(body) >= PREFIX_BYTES and body[:PREFIX_BYTES] == PREFIX.pack(
        0, len(body) - PREFIX_BYTES
    ):
        return body[PREFIX_BYTES:]
    return None


def framed(messages: list[bytes]) -> bytes:
    """All of them as one body."""
    parts: list[bytes] = []
    for message in messages:
        parts += (PREFIX.pack(0, len(message)), message)
    return b"".join(parts)


def timeout_s(text: str) -> float | None:
    """What grpc-timeout says; None for none. Raises `GrpcError` when it cannot be read."""
    if not text:
        return None
    digits, unit = text[:-1], _UNITS_S.get(text[-1])
    if unit is None or not 1 <= len(digits) <= 8 or not digits.isdecimal() or not digits.isascii():
        raise GrpcError(Code.INTERNAL, f"grpc-timeout {text!r} cannot be read")
    return int(digits) * unit


def percent_encoded(text: str) -> bytes:
    """grpc-message: printable ASCII as it is, but for %."""
    return b"".join(
        bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode()
    )
