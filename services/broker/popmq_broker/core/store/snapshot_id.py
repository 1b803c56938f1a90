"""The name of a snapshot, which is that of its folder: BROKER-TIME_MS-LOG_END."""

import re

BROKER_CHARS_MAX = 64


def make_id(broker: str, as_of_ms: int, log_end: int) -> str:
    """The same for the same log at the same time; letters, digits, dash and underscore."""
    return f"{prefix(broker)}{as_of_ms}-{log_end}"


def prefix(broker: str) -> str:
    """What the ids of a broker's snapshots begin with; another broker's may, too."""
    legal = re.sub(r"[^A-Za-z0-9_-]", "_", broker)[:BROKER_CHARS_MAX]
    return f"{legal or 'broker'}-"
