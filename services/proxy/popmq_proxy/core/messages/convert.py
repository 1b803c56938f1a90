"""Points in time and durations as protobuf has them, and what both ways of a message agree on."""

from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

COMPRESSED: Final = 0x1
SECONDS_MAX: Final = 253_402_300_799
"""The last second a protobuf Timestamp may mean, in the year 9999."""
_MS_MAX: Final = (1 << 63) - 1


def timestamp(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def millis(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def due_ms(stamp: Timestamp) -> int:
    """The first millisecond that is not before it."""
    return stamp.seconds * 1000 + -(-stamp.nanos // 1_000_000)


def is_valid(stamp: Timestamp) -> bool:
    return 0 <= stamp.nanos < 1_000_000_000 and 0 <= stamp.seconds <= SECONDS_MAX


def duration_ms(duration: Duration) -> int:
    """What is longer than 64 bits can tell is as long as they can: too long, wherever it goes."""
    ms: int = duration.ToMilliseconds()
    return max(-_MS_MAX, min(ms, _MS_MAX))
