"""What gRPC puts into HTTP/2: headers, and frames inside DATA."""

import struct
from collections.abc import Iterable

MESSAGING = "/apache.rocketmq.v2.MessagingService/"
PREFIX_BYTES = 5
Headers = list[tuple[str, str]]


def frame(message: bytes, *, compressed: int = 0, length_bytes: int | None = None) -> bytes:
    """A gRPC frame: flag, length in 4 bytes, message; flag and length may lie."""
    length = len(message) if length_bytes is None else length_bytes
    return struct.pack(">BI", compressed, length) + message


def frames(data: bytes | bytearray) -> list[bytes]:
    """The messages of complete gRPC frames; a frame that is not complete is left out."""
    found, at = [], 0
    while at + PREFIX_BYTES <= len(data):
        end = at + PREFIX_BYTES + int.from_bytes(data[at + 1 : at + PREFIX_BYTES], "big")
        if end > len(data):
            break
        found.append(bytes(data[at + PREFIX_BYTES : end]))
        at = end
    return found


def headers(path: str, *, drop: Iterable[str] = (), **changed: str) -> Headers:
    """Headers of a gRPC request; `changed` replaces or adds, with _ for - in names."""
    lines = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path if path.startswith("/") else MESSAGING + path,
        ":authority": "popmq",
        "content-type": "application/grpc",
        "te": "trailers",
        "x-mq-client-id": "wire@1@1@1",
    }
    for name, value in changed.items():
        key = name.replace("_", "-")
        lines[f":{key}" if key == "method" else key] = value
    return [(name, value) for name, value in lines.items() if name not in drop]
