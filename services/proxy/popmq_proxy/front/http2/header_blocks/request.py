"""What a block of fields must say to be a request.

Source: RFC 9113, 8.2.2 and 8.3.1.
"""

from typing import Final

from popmq_proxy.front.http2.header_blocks.fields import Header

_PSEUDO: Final = 0x3A
"""What the names of pseudo-headers begin with: a colon."""
LENGTH_DIGITS_MAX: Final = 15


def wrong_request(fields: list[Header], named: dict[bytes, bytes]) -> str:
    """Nothing, or what is wrong. `named`: the same by name."""
    if not named.get(b":path") or b":method" not in named or b":scheme" not in named:
        return "a request without method, scheme or path"
    if len(named) != len(fields):
        names = [name for name, _ in fields if name[0] == _PSEUDO]
        if len(set(names)) != len(names):
            return "a pseudo-header twice"
    te = named.get(b"te")
    if te is not None and te != b"trailers":
        return "te other than trailers"
    length = named.get(b"content-length")
    if length is not None and not (length.isdigit() and len(length) <= LENGTH_DIGITS_MAX):
        return "a content-length that is no number"
    return ""


def wrong_trailers(fields: list[Header]) -> str:
    return "a pseudo-header in trailers" if any(name[0] == _PSEUDO for name, _ in fields) else ""
