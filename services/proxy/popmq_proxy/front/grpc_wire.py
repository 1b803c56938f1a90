"""gRPC over HTTP/2, the part above frames: length-prefixed messages, time-outs, statuses.

    message    1 byte compressed? · 4 bytes length, big-endian · the message
    timeout    up to 8 digits and a unit: H M S m u n
    status     grpc-status and grpc-message, percent-encoded, as trailers; without a message they
               are headers and trailers at once

Source: gRPC over HTTP2 (PROTOCOL-HTTP2.md).
"""

import zlib
from enum import IntEnum
from struct import Struct
from typing import Final

PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = 5
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

    def __init__(self, bytes_max: int, encoding: str) -> None:
        """`encoding` is the request's grpc-encoding."""
        self._bytes_max = bytes_max
        self._encoding = encoding
        self._held = bytearray()
        self._needed = PREFIX_BYTES

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Messages that `chunk` completes. Raises `GrpcError`."""
        self._held += chunk
        found: list[bytes] = []
        while len(self._held) >= self._needed:
            compressed, size = PREFIX.unpack_from(self._held)
            if size > self._bytes_max:
                text = f"a message of {size} bytes, the limit is {self._bytes_max}"
                raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
            self._needed = PREFIX_BYTES + size
            if len(self._held) < self._needed:
                break
            message = bytes(self._held[PREFIX_BYTES : self._needed])
            del self._held[: self._needed]
            self._needed = PREFIX_BYTES
            found.append(self._plain(message) if compressed else message)
        return found

    def end(self) -> None:
        """The body is over. Raises `GrpcError` when it ended inside a message."""
        if self._held:
            raise GrpcError(Code.INTERNAL, "the request ended in the middle of a message")

    def _plain(self, message: bytes) -> bytes:
        if self._encoding in ("", "identity"):
            raise GrpcError(Code.INTERNAL, "a compressed message without grpc-encoding")
        if self._encoding != "gzip":
            text = f"grpc-encoding {self._encoding!r} is not known here, gzip is"
            raise GrpcError(Code.UNIMPLEMENTED, text)
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            plain = inflater.decompress(message, self._bytes_max + 1)
        except zlib.error as wrong:
            raise GrpcError(Code.INVALID_ARGUMENT, f"a message that is no gzip: {wrong}") from wrong
        if len(plain) > self._bytes_max:
            text = f"a message of more than {self._bytes_max} bytes when unpacked"
            raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
        if not inflater.eof:
            raise GrpcError(Code.INVALID_ARGUMENT, "a gzip message that ends too early")
        return plain


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
