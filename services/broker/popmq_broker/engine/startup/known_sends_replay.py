"""Start: which messages were sent lately, read from the end of the log.

The newest are read before the broker serves, the older ones while it does.

So a send is known though the broker was killed after it was stored and before it was answered, and
though another replica is primary now. It is bounded: at most the last `BYTES_MAX` of the log are
read, about `RECORDS_MAX` records, and of these only what was stored in the last `known_sends_ms`,
by the log's own times. The clock is not asked: a broker that stood for an hour, or a replica whose
clock is another, knows as much as one that was killed a moment ago.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from popmq_broker.core.sends.known_sends import KnownSends, key_of
from popmq_broker.core.sends.sent_message import sent_message
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Store
from popmq_common.errors import Corrupt
from popmq_common.units import KiB, MiB

BYTES_MAX: Final = 128 * MiB
"""Of the log, read at a start."""
RECORDS_MAX: Final = 100_000
"""Read at a start, if all records are about as large as the last ones: in half a second."""
SAMPLE_BYTES: Final = 64 * KiB
"""Of the log's end, which tell how large its records are."""
SEARCH_BYTES: Final = 1 * MiB
"""How near the search by time comes to the first record that counts."""
NEWEST_RECORDS: Final = 10_000
"""Of these, read before the broker serves: in 50 ms."""
TURN_RECORDS: Final = 1_000
"""Read before other work gets its turn: some 5 ms."""
PAUSE_S: Final = 0.01
"""Between these, while the broker serves."""


@dataclass(frozen=True, slots=True)
class OlderSends:
    """A part of the log, from one record to another one."""

    start: int
    end: int


async def load_newest(runtime: Runtime, known: KnownSends) -> OlderSends | None:
    """Fill the table with the last sends, which are those that may be repeated at once. Returns
    what is to be read besides. What cannot be read is passed over: nobody will receive it either.
    """
    if not known.on:
        return None
    store = runtime.store
    since_ms = store.last_store_ms - runtime.config.known_sends_ms
    mean = mean_bytes(store)
    start = begin(store, since_ms, min(BYTES_MAX, RECORDS_MAX * mean))
    newest = begin(store, since_ms, min(BYTES_MAX, min(NEWEST_RECORDS, RECORDS_MAX) * mean))
    count, now_ms = 0, runtime.clock.now_ms()
    known.add([], [], now_ms)
    if newest is not None:
        async for keys, log_offsets in _sends(store, newest, store.log_end, since_ms):
            known.add(keys, log_offsets, now_ms)
            count += len(keys)
    runtime.log.info("sends.read", count=count, start=newest)
    if start is None or newest is None or start >= newest:
        return None
    return OlderSends(start, newest)


async def load_older(runtime: Runtime, known: KnownSends, older: OlderSends | None) -> None:
    """The others, while the broker serves."""
    if older is None:
        return
    store, count = runtime.store, 0
    since_ms = store.last_store_ms - runtime.config.known_sends_ms
    async for keys, log_offsets in _sends(store, older.start, older.end, since_ms):
        if not known.add_older(keys, log_offsets):
            break
        count += len(keys)
        await asyncio.sleep(PAUSE_S)
    runtime.log.info("sends.older_read", count=count, start=older.start)


async def _sends(
    store: Store, start: int, end: int, since_ms: int
) -> AsyncIterator[tuple[list[int], list[int]]]:
    """(keys, log offsets) of the messages that were sent and are stored between these places."""
    keys: list[int] = []
    log_offsets: list[int] = []
    for i, record in enumerate(store.walk(start)):
        if record is not None and record.log_offset >= end:
            break
        if i % TURN_RECORDS == TURN_RECORDS - 1:
            yield keys, log_offsets
            keys, log_offsets = [], []
            await asyncio.sleep(0)
        if record is None or record.store_timestamp_ms < since_ms:
            continue
        sent = sent_message(record)
        if sent is not None:
            keys.append(key_of(sent.topic, record.properties))
            log_offsets.append(record.log_offset)
    yield keys, log_offsets


def mean_bytes(store: Store) -> int:
    """Of the last records; it is not 0."""
    start = store.record_behind(max(store.log_start, store.log_end - SAMPLE_BYTES))
    if start is None:
        return SAMPLE_BYTES
    count = sum(record is not None for record in store.walk(start))
    return max(1, (store.log_end - start) // max(1, count))


def begin(store: Store, since_ms: int, bytes_max: int) -> int | None:
    """The first byte of a record within the last `bytes_max` of the log, before the first one that
    was stored at `since_ms` or later, but not long before it. None: there is none."""
    low = max(store.log_start, store.log_end - bytes_max)
    high = store.log_end
    while high - low > SEARCH_BYTES:
        middle = (low + high) // 2
        at, stored_ms = _record_behind(store, middle, high)
        if at is None or stored_ms >= since_ms:
            high = middle
        else:
            low = at
    at, _ = _record_behind(store, low, store.log_end)
    return at


def _record_behind(store: Store, log_offset: int, end: int) -> tuple[int | None, int]:
    """(where, store time) of the first whole record there, before `end`."""
    at = store.record_behind(log_offset)
    if at is None or at >= end:
        return None, 0
    try:
        found = store.read_at(at)
    except Corrupt:  # it was whole a moment ago
        return None, 0
    return (at, found[0].store_timestamp_ms) if found is not None else (None, 0)
