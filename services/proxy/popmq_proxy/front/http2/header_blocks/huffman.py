"""Huffman coded strings, a byte at a time.

The hpack library walks its table by half bytes. Two of these steps are one here: what a state and a
byte lead to is remembered when it is first met, which takes a third of the time for long strings.

Source: RFC 7541, 5.2 and appendix B.
"""

from typing import Final

from hpack import HPACKError
from hpack.huffman_table import (
    HUFFMAN_COMPLETE,
    HUFFMAN_EMIT_SYMBOL,
    HUFFMAN_FAIL,
    HUFFMAN_TABLE,
)

Step = tuple[int, bytes, int]
"""The next state times 256, what is decoded, whether a string may end here."""
STEPS_MAX: Final = 16_384
"""Remembered of 65,536; text needs some hundreds."""
_steps: Final[dict[int, Step]] = {}


def decode_huffman(coded: bytes) -> bytes:
    """Raises `HPACKError`."""
    state = 0
    decoded: list[bytes] = []
    may_end = 1
    for byte in coded:
        step = _steps.get(state | byte)
        if step is None:
            step = _step(state | byte)
        state, found, may_end = step
        if found:
            decoded.append(found)
    if not may_end:
        raise HPACKError("a Huffman coded string that does not end")
    return b"".join(decoded)


def _step(key: int) -> Step:
    """`key`: a state times 256, and a byte."""
    state, found = key >> 8, b""
    flags = 0
    for half in (key >> 4 & 0x0F, key & 0x0F):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise HPACKError("no Huffman coded string")
        if flags & HUFFMAN_EMIT_SYMBOL:
            found += bytes((symbol,))
    step = (state << 8, found, flags & HUFFMAN_COMPLETE)
    if len(_steps) < STEPS_MAX:
        _steps[key] = step
    return step
