"""What a client has counted, as a record of `rmq_sys_popmq_counts` holds it.

One queue, a record for each report, JSON:

    {"c": client id, "p": id prefix, "s": sequence, "f": from ms, "u": until ms, "l": is last,
     "n": uncounted, "r": [[counted as, topic, group, minute ms, messages, digest] …]}

Topics and groups are as brokers store them; the group of what was sent is empty. The digest is the
sum of the CRC-32 of the messages' ids, modulo 2⁶³: it does not depend on their order.
"""

import json
from enum import StrEnum
from typing import Final, NamedTuple

from popmq_common.errors import Corrupt

ROWS_MAX: Final = 1_000
PREFIX_CHARS: Final = 18
"""Of a message id, which has 34: version, machine and process."""
DIGEST_MAX: Final = (1 << 63) - 1


class CountedAs(StrEnum):
    SENT = "sent"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    RECEIVED = "received"
    ACKED = "acked"
    NACKED = "nacked"
    REJECTED = "rejected"


class CountRow(NamedTuple):
    counted_as: CountedAs
    topic: str
    group: str
    minute_ms: int
    message_count: int
    digest: int


class CountReport(NamedTuple):
    client_id: str
    id_prefix: str
    """With which the ids of all that the client sends begin, and no others."""
    sequence: int
    from_ms: int
    until_ms: int
    is_last: bool
    uncounted: int
    rows: tuple[CountRow, ...]


def encode(report: CountReport) -> bytes:
    fields = {
        "c": report.client_id,
        "p": report.id_prefix,
        "s": report.sequence,
        "f": report.from_ms,
        "u": report.until_ms,
        "l": report.is_last,
        "n": report.uncounted,
        "r": report.rows,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(body: bytes, *, where: str) -> CountReport:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(body)
        rows = tuple(
            CountRow(CountedAs(kind), str(topic), str(group), int(minute), int(count), int(digest))
            for kind, topic, group, minute, count, digest in fields["r"]
        )
        return CountReport(
            client_id=str(fields["c"]),
            id_prefix=str(fields["p"]),
            sequence=int(fields["s"]),
            from_ms=int(fields["f"]),
            until_ms=int(fields["u"]),
            is_last=bool(fields["l"]),
            uncounted=int(fields["n"]),
            rows=rows,
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no report of counts: {wrong!r}") from wrong
