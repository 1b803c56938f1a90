"""A queue at a place, or from a place or a time on. Times by binary search over the store times of
its messages.

Source: RocketMQ ConsumeQueue.getOffsetInQueueByTime with LOWER as boundary.
"""

from collections.abc import Iterator
from typing import Final

from popmq_broker.core.store.queue_entry import QueueEntry
from popmq_broker.store.store import Store
from popmq_common.errors import Corrupt
from popmq_common.records.record import Record

CHUNK_ENTRIES: Final = 1_024
"""Read at a time."""


def entries_from(
    store: Store, topic: str, queue_id: int, start: int
) -> Iterator[tuple[int, QueueEntry]]:
    """(offset, entry) of each visible message from `start` on. Raises `Corrupt`."""
    at = max(start, store.min_offset(topic, queue_id))
    while entries := store.entries(topic, queue_id, at, CHUNK_ENTRIES):
        yield from enumerate(entries, at)
        at += len(entries)


def record_at(store: Store, topic: str, queue_id: int, offset: int) -> Record | None:
    """None: there is none, or retention has deleted it. Raises `Corrupt`."""
    for entry in store.entries(topic, queue_id, offset, 1):
        return store.read(entry.log_offset, entry.size_bytes)
    return None


def first_stored_at(store: Store, topic: str, queue_id: int, low: int, time_ms: int) -> int:
    """The offset, `low` or behind it, of the first message stored at `time_ms` or later; the
    queue's end when there is none.

    Store times never go back within a queue. What retention has deleted is older. What cannot be
    read is as old as what comes behind it.
    """
    high = store.max_offset(topic, queue_id)
    while low < high:
        middle = at = (low + high) // 2
        stored_ms = None
        while at < high and (stored_ms := _stored_ms(store, topic, queue_id, at)) is None:
            at += 1
        if stored_ms is not None and stored_ms < time_ms:
            low = at + 1
        else:
            high = middle
    return low


def _stored_ms(store: Store, topic: str, queue_id: int, offset: int) -> int | None:
    """-1: retention has deleted it. None: it cannot be read."""
    try:
        record = record_at(store, topic, queue_id, offset)
    except Corrupt:
        return None
    return -1 if record is None else record.store_timestamp_ms
