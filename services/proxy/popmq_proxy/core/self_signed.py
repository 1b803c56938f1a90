"""A certificate that signs itself: ECDSA over P-256 with SHA-256, as PEM.

What TLS asks for before it encrypts. Nobody trusts it, and it is signed once, at start: that takes
no library of 14 MiB. The handshakes themselves are OpenSSL's.

Source: RFC 5280 (the certificate), RFC 5480 and 5915 (the key), RFC 5958 (its envelope), FIPS 186-5
(the signature), X.690 (how it is all written).
"""

from base64 import encodebytes
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Final

P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""The field of P-256: y² = x³ - 3x + b modulo this."""
N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""How often `BASE` can be added to itself before it comes round."""
BASE: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int]
Below = Callable[[int], int]
"""A random number of 0 or more and below its argument."""

INTEGER, BITS, OCTETS, OID, TEXT, UTC_TIME, TIME, SEQUENCE, SET = 2, 3, 4, 6, 12, 23, 24, 48, 49
DNS_NAME = 0x82
COMMON_NAME = bytes.fromhex("550403")
ALTERNATIVE_NAME = bytes.fromhex("551d11")
EC_KEY = bytes.fromhex("2a8648ce3d0201")
P_256 = bytes.fromhex("2a8648ce3d030107")
ECDSA_SHA256 = bytes.fromhex("2a8648ce3d040302")


def self_signed(
    name: str, host: str, begins: datetime, ends: datetime, below: Below
) -> tuple[bytes, bytes]:
    """(key, certificate), both PEM. `below` is to be a source that nobody can guess."""
    key = 1 + below(N - 1)
    public = b"\x04" + b"".join(part.to_bytes(32, "big") for part in times(key))
    algorithm = _der(SEQUENCE, _der(OID, EC_KEY), _der(OID, P_256))
    whose = _der(
        SEQUENCE, _der(SET, _der(SEQUENCE, _der(OID, COMMON_NAME), _der(TEXT, name.encode())))
    )
    signed_by = _der(SEQUENCE, _der(OID, ECDSA_SHA256))
    hosts = _der(OCTETS, _der(SEQUENCE, _der(DNS_NAME, host.encode())))
    said = _der(
        SEQUENCE,
        _explicit(0, _integer(2)),  # version 3
        _integer(1 + below(2**128)),
        signed_by,
        whose,
        _der(SEQUENCE, _time(begins), _time(ends)),
        whose,
        _der(SEQUENCE, algorithm, _bits(public)),
        _explicit(3, _der(SEQUENCE, _der(SEQUENCE, _der(OID, ALTERNATIVE_NAME), hosts))),
    )
    signature = _der(SEQUENCE, *map(_integer, sign(key, said, below)))
    certificate = _der(SEQUENCE, said, signed_by, _bits(signature))
    secret = _der(OCTETS, key.to_bytes(32, "big"))
    private = _der(SEQUENCE, _integer(1), secret, _explicit(1, _bits(public)))
    envelope = _der(SEQUENCE, _integer(0), algorithm, _der(OCTETS, private))
    return _pem("PRIVATE KEY", envelope), _pem("CERTIFICATE", certificate)


def sign(key: int, said: bytes, below: Below) -> Point:
    """ECDSA's (r, s)."""
    digest = int.from_bytes(sha256(said).digest(), "big")
    while True:
        once = 1 + below(N - 1)
        r = times(once)[0] % N
        s = pow(once, -1, N) * (digest + r * key) % N
        if r and s:
            return r, s


def times(count: int) -> Point:
    """`BASE` added to itself; `count` is 1 or more and below `N`."""
    found: Point | None = None
    step = BASE
    while count:
        if count & 1:
            found = step if found is None else _sum(found, step)
        count >>= 1
        step = _sum(step, step)
    assert found is not None
    return found


def _sum(one: Point, other: Point) -> Point:
    """Never of a point and its opposite: no multiple of `BASE` below `N` asks for that."""
    if one == other:
        slope = (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, P) % P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, P) % P
    x = (slope**2 - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 128 | len(length))) + length + content


def _explicit(number: int, part: bytes) -> bytes:
    return _der(0xA0 | number, part)


def _integer(value: int) -> bytes:
    return _der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    """All bits of the last byte count."""
    return _der(BITS, b"\0" + content)


def _time(at: datetime) -> bytes:
    """In UTC. Years of two digits up to 2049, as RFC 5280 wants it."""
    if at.year < 2050:
        return _der(UTC_TIME, at.strftime("%y%m%d%H%M%SZ").encode())
    return _der(TIME, at.strftime("%Y%m%d%H%M%SZ").encode())


def _pem(what: str, content: bytes) -> bytes:
    lines = encodebytes(content).decode().replace("\n", "")
    folded = "\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
    return f"-----BEGIN {what}-----\n{folded}\n-----END {what}-----\n".encode()
