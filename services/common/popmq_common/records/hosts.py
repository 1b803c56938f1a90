"""Host addresses as RocketMQ stores them: 4 or 16 address bytes, then the port as 4 bytes."""

from ipaddress import ip_address
from struct import Struct
from typing import Final

_PORT = Struct(">i")
SIZES_BYTES: Final = (8, 20)
LOCAL: Final = bytes((127, 0, 0, 1)) + _PORT.pack(0)


def encode(host: str, port: int) -> bytes:
    """Raises `ValueError` when `host` is no IP address."""
    return ip_address(host).packed + _PORT.pack(port)


def decode(packed: bytes) -> str:
    """`1.2.3.4:5`, or `[::1]:5` for IPv6."""
    address = ip_address(packed[:-4])
    (port,) = _PORT.unpack(packed[-4:])
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
