"""Points in time as protobuf has them, and what both ways of a message agree on."""

from google.protobuf.timestamp_pb2 import Timestamp

COMPRESSED = 0x1


def timestamp(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def millis(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def due_ms(stamp: Timestamp) -> int:
    """The first millisecond that is not before it."""
    return stamp.seconds * 1000 + -(-stamp.nanos // 1_000_000)


def is_valid(stamp: Timestamp) -> bool:
    return 0 <= stamp.nanos < 1_000_000_000 and stamp.seconds >= 0
