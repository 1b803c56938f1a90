"""Words that depend on a number; points in time as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, one: str, several: str = "") -> str:
    """1 message, 2 messages; `several` where an s is not enough."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def numbered(thing: str, first: int, last: int) -> str:
    """queue 3; queues 1 to 3."""
    return f"{thing} {first}" if first == last else f"{thing}s {first} to {last}"


def moment(ms: int) -> str:
    """In UTC, to the millisecond: 2026-11-22T03:02:27.352Z."""
    at = _EPOCH + timedelta(milliseconds=ms)  # a float would lose some in years far off
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
