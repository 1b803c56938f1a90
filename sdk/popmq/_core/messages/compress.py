"""Bodies under `body_encoding` GZIP.

We write gzip, which every official client can read (Node reads no other; Rust none). Some clients
write a zlib stream under the same name, so both are read.
"""

import gzip
import zlib
from typing import Final

_GZIP_OR_ZLIB: Final = 47
"""Window bits that make zlib look for itself which of the two it is."""


class BodyTooLarge(ValueError):
    """A body would be larger than allowed when it is unpacked."""


class BodyDamaged(ValueError):
    """A body says that it is compressed, and is not."""


def pack(body: bytes, level: int) -> bytes:
    return gzip.compress(body, level, mtime=0)


def unpack(body: bytes, bytes_max: int) -> bytes:
    """Raises `BodyTooLarge` before more than `bytes_max` are held, `BodyDamaged`."""
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        unpacked = inflater.decompress(body, bytes_max + 1)
    except zlib.error as wrong:
        raise BodyDamaged(f"a body that is neither gzip nor zlib: {wrong}") from wrong
    if len(unpacked) > bytes_max:
        raise BodyTooLarge(f"a body of more than {bytes_max} bytes, unpacked")
    if not inflater.eof:
        raise BodyDamaged("a compressed body that ends too early")
    return unpacked
