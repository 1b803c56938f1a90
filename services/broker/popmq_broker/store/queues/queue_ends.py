"""config/queueEnds.json: where each queue ended when the queues were last brought to disk. Ours.

    {"logStart": 0, "logEnd": 4711, "queues": {"topic": {"0": [first offset, next offset]}}}

For the records before `logEnd`, which is the end of one, this is what a start trusts: what the
queue files hold behind these places is dropped and made again from the log. So a damaged entry
cannot make a queue look shorter, and the entries need not be searched for the end. Written last of
a checkpoint, and an older one is as good: the start reads more of the log.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.core.store import json_checksum
from popmq_broker.store.files.files import Files
from popmq_common.errors import Corrupt

QUEUE_ENDS_FILE: Final = "queueEnds.json"
QueueId = tuple[str, int]


class Ends(NamedTuple):
    """A queue has the messages from `first` to before `next`."""

    first: int
    next: int


NO_ENTRIES: Final = Ends(0, 0)


class QueueEnds(NamedTuple):
    log_start: int
    """The log's first byte then; while it is the same, so is each queue's first message."""
    log_end: int
    """All records before it are in the queues and on disk."""
    queues: Mapping[QueueId, Ends]


def encode(ends: QueueEnds) -> str:
    queues: dict[str, dict[str, Ends]] = {}
    for (topic, number), place in sorted(ends.queues.items()):
        queues.setdefault(topic, {})[str(number)] = place
    fields = {"logStart": ends.log_start, "logEnd": ends.log_end, "queues": queues}
    return json.dumps(fields, indent=None)


def decode(text: str) -> QueueEnds:
    """Raises `Corrupt`."""
    try:
        fields = json.loads(text)
        queues = {
            (topic, int(number)): Ends(int(first), int(next_offset))
            for topic, numbers in fields["queues"].items()
            for number, (first, next_offset) in numbers.items()
        }
        ends = QueueEnds(int(fields["logStart"]), int(fields["logEnd"]), queues)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=QUEUE_ENDS_FILE, offset=0, reason=f"no ends: {wrong!r}") from wrong
    if any(not 0 <= place.first <= place.next for place in queues.values()):
        raise Corrupt(path=QUEUE_ENDS_FILE, offset=0, reason="a queue ends before it begins")
    return ends


def read_ends(files: Files, path: Path) -> QueueEnds | None:
    """This one file alone; None when there is none. Raises `Corrupt`."""
    data = files.read(path)
    if data is None:
        return None
    try:
        return decode(json_checksum.verify(data))
    except ValueError as wrong:
        raise Corrupt(path=path, offset=0, reason=str(wrong)) from wrong
