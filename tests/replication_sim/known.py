"""Which sends a primary knows: the real table, filled from the log when it becomes primary."""

from replication_sim.disk import number_of, whole_end

from popmq_broker.core.sends.known_sends import KnownSends

KNOWN_MAX = 800
"""Half of them are known at least: more than `READ_BYTES` have room for."""
AGE_MS = 1 << 60
READ_BYTES = 2_000
"""Of the log's end."""


def read(log: bytearray, start: int, end: int) -> KnownSends:
    """What lies in the log from `start`, a record's first byte, on."""
    known = KnownSends(KNOWN_MAX, AGE_MS)
    at = start
    while at < end:
        if at >= end - READ_BYTES:
            known.add([number_of(log, at)], [at], 0)
        behind = at + log[at]
        assert whole_end(log, at, behind) == behind
        at = behind
    return known
