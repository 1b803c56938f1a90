"""What a primary sends ends with a whole record.

A follower cuts off half a record when it starts. If it had acknowledged one, it would come back
with less than it said. If it became primary, its epoch would begin in the middle of a record. And
the commit point, which is the least of what replicas have, would lie within one.
"""

from struct import Struct

_SIZE = Struct(">i")
HEAD_BYTES = _SIZE.size


def whole_bytes(data: bytes) -> int:
    """How much of `data`, which begins with a record, is whole records; fillers of a file's end
    count as records. 0: not even the first is."""
    at = 0
    while at + HEAD_BYTES <= len(data):
        end = at + first_bytes(data, at)
        if not at < end <= len(data):
            break
        at = end
    return at


def first_bytes(data: bytes, at: int = 0) -> int:
    """The size of the record that begins at `at`; 0: nothing was written there."""
    size: int = _SIZE.unpack_from(data, at)[0]
    return size
