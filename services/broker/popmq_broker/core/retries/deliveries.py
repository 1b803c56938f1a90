"""Deliveries: how often a message was handed out, a second count, beside its attempts.

What is given back uncounted keeps its attempt, so by attempts alone it could come for ever, as fast
as its consumer gives it back. So each return that does not count is counted here, in the copy
(`__UNCOUNTED`) or in a FIFO group's journal, and at the group's ceiling the message goes to the
dead letters instead.

    handed out = attempts + returns that did not count
"""

from typing import Final

from popmq_common.records import properties as names
from popmq_common.records.record import Record
from popmq_common.words import counted

MAX_DELIVERIES_DEFAULT: Final = 1_000
WARNED_EVERY: Final = 100
"""The log and a metric tell of a message each time that it has come so often."""
COUNT_MAX: Final = 1_000_000_000
"""What a record says beyond this is read as this: records may have been written by others."""
_UNCOUNTED: Final = (names.UNCOUNTED + names.NAME_END).encode()


def count_of(text: str | None) -> int:
    """Of a property of a copy; 0: it is no number, or not there."""
    return min(names.number_of(text) or 0, COUNT_MAX)


def uncounted(properties: bytes) -> int:
    """Returns so far that did not count, of a record's property string."""
    return count_of(names.value_of(properties, _UNCOUNTED))


def handed_out(record: Record) -> int:
    """Deliveries, the one that is under way included."""
    return record.reconsume_times + uncounted(record.properties) + 1


def why_dead(handed_out: int, attempts: int, last: str) -> str:
    """The reason of a dead letter that reached the ceiling. `attempts`: this one included, which
    did not count; `last`: what its consumer said."""
    times = counted(handed_out, "time")
    text = f"handed out {times}, {handed_out - attempts + 1} of them uncounted"
    return f"{text}: {last}" if last else text
