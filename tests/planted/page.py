"""The table of docs/audit.md: each fault that is planted, what it is found as, and where.

PYTHONPATH=tests python -m planted.page docs/audit.md        write it anew
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

from planted import FAULTS
from planted.planting import Expected, Fault
from popmq_common.records.names import FORCED_TOPIC, HALF_TOPIC, TIMER_TOPIC

BEGIN: Final = "<!-- planted: begin -->"
END: Final = "<!-- planted: end -->"
HEAD: Final = "| fault | found as | place |\n| --- | --- | --- |\n"
_PLACES: Final = {
    TIMER_TOPIC: "the record that waits",
    HALF_TOPIC: "the half message",
    FORCED_TOPIC: "the record that tells it",
    "%DLQ%{group}": "the dead letter",
    "%RETRY%{group}_{name}": "the retry",
}


class Elsewhere(NamedTuple):
    """A fault that another test plants."""

    says: str
    found: str
    place: str


QUEUE, JOURNAL, MANIFEST = "queue and offset", "group, queue and offset", "the snapshot"
INCOMPLETE = "INCOMPLETE"
IN_ROWS: Final = (
    Elsewhere("a message removed between others", "message missing", QUEUE),
    Elsewhere("a queue that goes on thousands of offsets later", "message missing", QUEUE),
    Elsewhere("two messages at one place", "stored twice", QUEUE),
    Elsewhere("a checkpoint that neither ack nor revive ended", "lease overdue", JOURNAL),
    Elsewhere("one of the acks of a record removed", "lease overdue", JOURNAL),
    Elsewhere("an ack of a lease that was never made", "ack without checkpoint", JOURNAL),
    Elsewhere("two holders of a message", "leased while held", JOURNAL),
    Elsewhere("a message delivered after its ack", "leased after its end", JOURNAL),
    Elsewhere("a second dead letter", "copy without end", "the dead letter"),
    Elsewhere("a lease that ended without its copy", "copy missing", JOURNAL),
    Elsewhere("a record older than those before it", "clock went back", QUEUE),
)
"""tests/pipelines/test_histories.py"""
IN_LOGS: Final = (
    Elsewhere("a copy with another body", "copy missing", JOURNAL),
    Elsewhere("a copy in the retry topic of another group", "copy missing", JOURNAL),
    Elsewhere("a lease that was acked twice", "ended twice", JOURNAL),
    Elsewhere("a lease that was acked and copied", "ended twice", JOURNAL),
    Elsewhere("a checkpoint written twice", "checkpointed twice", JOURNAL),
    Elsewhere("a change whose lease never ended", "lease overdue", JOURNAL),
    Elsewhere("a lease behind the queue's end", "beyond the queue", JOURNAL),
    Elsewhere("a position behind the queue's end", "beyond the queue", JOURNAL),
)
"""tests/pipelines/test_planted.py"""
IN_FILES: Final = (
    Elsewhere("two entries of a queue swapped", "queue entry wrong", QUEUE),
    Elsewhere("an entry with another log offset, size or tag code", "queue entry wrong", QUEUE),
    Elsewhere("the end of a queue's files zeroed", "queue entry missing", QUEUE),
    Elsewhere("an entry inside a queue zeroed", "queue entry missing", QUEUE),
    Elsewhere("a file of a queue removed", "queue entry missing", QUEUE),
)
"""tests/unit/pipelines/export/test_queue_files.py"""
LOST: Final = (
    Elsewhere("a broker that came back empty", "log went back", "the log"),
    Elsewhere("a log that lost its last file", "log went back", "the log"),
    Elsewhere("an empty broker that has grown since", "another log", "the last record"),
)
"""tests/pipelines/test_losses.py"""
LIES: Final = (
    Elsewhere("a manifest with another count of rows", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest with another least offset", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest with another greatest offset", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest that begins later than its rows", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest that ends before its last record", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest that ends behind its last record", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest with another last record", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest as of a time before its records", INCOMPLETE, MANIFEST),
    Elsewhere("positions that rest on more than the log has", INCOMPLETE, MANIFEST),
    Elsewhere("a manifest changed, with every hash made right", INCOMPLETE, "its seal"),
    Elsewhere("a manifest sealed with another key", INCOMPLETE, "its seal"),
    Elsewhere("a seal removed", INCOMPLETE, "its seal"),
    Elsewhere("a table removed", INCOMPLETE, "the file"),
    Elsewhere("a table cut off", INCOMPLETE, "the file"),
    Elsewhere("a byte of a table changed", INCOMPLETE, "the file"),
    Elsewhere("the manifest removed", INCOMPLETE, MANIFEST),
)
"""tests/unit/pipelines/snapshot/test_proof.py, tests/pipelines/test_histories.py"""

CLIENT, GROUP = "topic, client and minute", "topic, group and minute"
IN_COUNTS: Final = (
    Elsewhere("a message answered OK that no broker has", "sent and not stored", CLIENT),
    Elsewhere("another message in the place of one answered OK", "sent, and others stored", CLIENT),
    Elsewhere("a message that its client never sent", "stored and not sent", CLIENT),
    Elsewhere("a message received that was never leased", "received without lease", GROUP),
    Elsewhere("other messages received than were leased", "received, and others leased", GROUP),
    Elsewhere("an ack answered OK that no broker has", "acked without ack", GROUP),
    Elsewhere("a report of counts removed", INCOMPLETE, "the client"),
)
"""tests/pipelines/test_both_ends.py, by `popmq-pipelines counts`"""


def table() -> str:
    rows = [_row(fault) for fault in FAULTS]
    for group in (IN_ROWS, IN_LOGS, IN_FILES, LOST, LIES, IN_COUNTS):
        rows += [f"| {one.says} | {one.found} | {one.place} |" for one in group]
    return HEAD + "".join(f"{row}\n" for row in rows)


def _row(fault: Fault) -> str:
    kinds = dict.fromkeys(one.kind for one in fault.expected)
    places = dict.fromkeys(map(_place, fault.expected))
    return f"| {fault.says} | {', '.join(kinds)} | {', '.join(places)} |"


def _place(one: Expected) -> str:
    return _PLACES.get(one.topic, QUEUE)


def written(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    assert behind, f"the page has no {BEGIN} … {END}"
    return f"{before}{BEGIN}\n{table()}{END}{behind}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(written(path.read_text()))
