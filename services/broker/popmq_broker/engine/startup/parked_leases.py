"""Leases and acks that RocketMQ's timer still holds → the revive topic, before it is replayed.

RocketMQ puts a checkpoint into its timer's topic and moves it to the revive topic a second before
the lease ends; an ack of that lease waits there until it ends. So a directory that RocketMQ wrote
says of a live lease only

    rmq_sys_wheel_timer, queue 0    TAGS ck, ack or bAck; REAL_TOPIC the revive topic, REAL_QID

while the group's position is behind the messages already: who reads the revive topic alone loses
them. At start every such record whose body is not in the revive topic behind it is appended
there. Up to where the timer's topic was looked through is kept beside the groups' positions, and
written after what was appended, so a start that is cut off does it again.

Source: RocketMQ PopMessageProcessor.buildCkMsg, AckMessageProcessor, TimerMessageStore.
"""

from collections.abc import Iterator
from functools import partial

from popmq_broker.core.groups import offsets
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import QueueEntry, tags_code
from popmq_broker.engine.groups.offsets import OFFSETS_FILE, TIMER_TOPIC_SEEN
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.seek import entries_from
from popmq_broker.store.store import Draft
from popmq_common.records import properties as names
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.records.record import Record

APPENDED_TOGETHER_MAX = 64
_TAGS = frozenset({ck.CHECKPOINT_TAG, ck.ACK_TAG, ck.BATCH_ACK_TAG})
_CODES = frozenset(tags_code(tag) for tag in _TAGS)


async def bring_in(runtime: Runtime, lease_state: LeaseState) -> int:
    """How many records were appended. Raises `Corrupt`, `DiskFull`, `StoreClosed`."""
    store = runtime.store
    saved = store.load_config(OFFSETS_FILE, partial(offsets.decode, where=OFFSETS_FILE))
    seen = saved.offsets.get(TIMER_TOPIC_SEEN, 0) if saved else 0
    end = store.max_offset(TIMER_TOPIC, 0)
    lease_state.timer_topic_seen = end
    parked = list(_parked(runtime, seen if seen <= end else 0))
    if not parked:
        return 0
    there = _bodies_behind(runtime, parked[0].log_offset)
    drafts = [_draft(runtime, record) for record in parked if _what(record) not in there]
    now_ms = runtime.clock.now_ms()
    for i in range(0, len(drafts), APPENDED_TOGETHER_MAX):
        store.append(drafts[i : i + APPENDED_TOGETHER_MAX], now_ms, system=True)
    await store.settled()
    runtime.log.info("leases.brought_in", parked=len(parked), appended=len(drafts))
    return len(drafts)


def _parked(runtime: Runtime, start: int) -> Iterator[Record]:
    """Each record once: what waits for days is written again now and then."""
    known = set()
    for _, entry in entries_from(runtime.store, TIMER_TOPIC, 0, start):
        record = _read(runtime, entry) if entry.tags_code in _CODES else None
        if record is None or _property(record, names.REAL_TOPIC) != runtime.revive_topic:
            continue
        if _what(record) not in known:
            known.add(_what(record))
            yield record


def _bodies_behind(runtime: Runtime, log_offset: int) -> set[tuple[str, bytes]]:
    """What the revive topic holds behind this place of the log."""
    found = set()
    for queue_id in range(runtime.config.revive_queues):
        for _, entry in entries_from(runtime.store, runtime.revive_topic, queue_id, 0):
            record = _read(runtime, entry) if entry.log_offset > log_offset else None
            if record is not None:
                found.add(_what(record))
    return found


def _what(record: Record) -> tuple[str, bytes]:
    return _property(record, names.TAGS), record.body


def _property(record: Record, name: str) -> str:
    return names.value_of(record.properties, f"{name}{names.NAME_END}".encode()) or ""


def _read(runtime: Runtime, entry: QueueEntry) -> Record | None:
    return runtime.store.read(entry.log_offset, entry.size_bytes)


def _draft(runtime: Runtime, record: Record) -> Draft:
    tag = _property(record, names.TAGS)
    properties = {names.TAGS: tag, names.UNIQ_KEY: _property(record, names.UNIQ_KEY)}
    return Draft(
        topic=runtime.revive_topic,
        queue_id=int(_property(record, names.REAL_QUEUE_ID) or 0) % runtime.config.revive_queues,
        body=record.body,
        properties=names.encode({**properties, names.DELIVER_MS: str(runtime.clock.now_ms())}),
        tags_code=tags_code(tag),
        sys_flag=0,
        flag=0,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
    )
