"""What both brokers must be told alike, small enough that files end often."""

from typing import Final

CLUSTER: Final = "PopMQ"
BROKER: Final = "broker-a"
SEGMENT_BYTES: Final = 32 << 20
QUEUE_FILE_BYTES: Final = 1000 * 20
BODY_BYTES_MAX: Final = 4 << 20
INDEX_SLOTS: Final = 200_000
INDEX_ENTRIES: Final = 100_000
"""One file for some 45,000 messages."""
