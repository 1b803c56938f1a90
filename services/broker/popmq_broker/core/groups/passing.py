"""How a group goes over messages without handing them out: for an audit, which else could not tell
the work of a filter from a loss.

A pop goes over what its filter rejects, and nothing is written of these messages. So whenever the
way changes in which a group goes over a queue, a record says so, before the position moves:

    revive topic   tag `pass`: c group · t topic · q queue id · so from this offset on ·
                   k filter kind (0 everything is handed out, 1 tags, 2 SQL) · f expression
                   RocketMQ's reader passes over tags it does not know.

The way of an offset is told by the latest record whose `so` is not behind it. A position change
begins anew with everything, as a group does that has no record: so a broker without filters never
writes one.

consumerOffset.json has the latest way of each queue too, if it is another than everything, because
retention deletes records. There the group `PASSES_GROUP` has an entry for the revive topic: the
offset of revive queue 0 from which on all this is told. Before it, by an older version, it was not.
With pop_buffer=memory there is no such entry: what is acked in time is in no journal.

Source: none.
"""

import json
from typing import Final, NamedTuple

from popmq_broker.core.groups.offsets import Passing, QueueKey
from popmq_common.errors import Corrupt

PASS_TAG: Final = "pass"
EVERYTHING: Final = Passing()
"""What is gone over was handed out, and its lease is in the journal."""


class PassRecord(NamedTuple):
    key: QueueKey
    from_offset: int
    passing: Passing


def encode(record: PassRecord) -> bytes:
    """The record's body."""
    key, passing = record.key, record.passing
    fields = {
        "c": key.group,
        "t": key.topic,
        "q": key.queue_id,
        "so": record.from_offset,
        "k": passing.kind,
        "f": passing.expression,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(body: bytes, *, where: str) -> PassRecord:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(body)
        key = QueueKey(str(fields["c"]), str(fields["t"]), int(fields["q"]))
        passing = Passing(int(fields["k"]), str(fields["f"]))
        return PassRecord(key, int(fields["so"]), passing)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no pass record: {wrong!r}") from wrong


def record_key(record: PassRecord, now_ms: int) -> str:
    """The record's UNIQ_KEY."""
    key = record.key
    return f"{key.topic}@{key.queue_id}@{record.from_offset}@{key.group}@{now_ms}@{PASS_TAG}"
