"""What goes into the store, and what it says about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from popmq_broker.core.store.queue_entry import tags_code, tags_code_of
from popmq_broker.store.log.batch import Batch
from popmq_broker.store.queues.queues import QueueId
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records import record as rec


class Draft(NamedTuple):
    """A record before it has a place and a time."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int
    sys_flag: int
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0


def copy_of(record: rec.Record, topic: str, queue_id: int, properties: bytes) -> Draft:
    """The message of a stored record once more, in that queue and with these properties."""
    return Draft(
        topic,
        queue_id,
        record.body,
        properties,
        tags_code_of(properties),
        record.sys_flag,
        record.flag,
        record.born_timestamp_ms,
        record.born_host,
        record.reconsume_times,
    )


def own_draft(topic: str, tag: str, body: bytes, now_ms: int) -> Draft:
    """What the broker writes for itself: in the one queue of a topic of its own."""
    return Draft(
        topic=topic,
        queue_id=0,
        body=body,
        properties=names.encode({names.TAGS: tag}),
        tags_code=tags_code(tag),
        sys_flag=0,
        flag=0,
        born_timestamp_ms=now_ms,
        born_host=hosts.LOCAL,
    )


class Appended(NamedTuple):
    log_offset: int
    end_offset: int
    queue_offset: int


@dataclass(slots=True)
class Run:
    """Messages of one append with consecutive offsets in one queue."""

    queue: QueueId
    first_offset: int
    entries: bytearray = field(default_factory=bytearray)
    """What its ConsumeQueue gets, one entry after the other."""
    tags_codes: list[int] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.tags_codes)


class Pending(NamedTuple):
    """Records of one append that are not yet in their queues."""

    start_offset: int
    end_offset: int
    runs: list[Run]
    drafts: Sequence[Draft]
    appended: Sequence[Appended]
    store_ms: int


def place(
    batch: Batch, draft: Draft, queue_offset: int, now_ms: int, store_host: bytes
) -> Appended:
    """Make the draft's record and put it into the batch."""
    (
        topic,
        queue_id,
        body,
        properties,
        _,
        sys_flag,
        flag,
        born_ms,
        born_host,
        tries,
        prepared_offset,
    ) = draft
    size = rec.size_bytes(topic, body, properties, born_host, store_host)
    log_offset = batch.place(size)
    batch.parts += rec.pack(
        size,
        topic,
        queue_id,
        queue_offset,
        log_offset,
        body,
        properties,
        sys_flag,
        flag,
        born_ms,
        born_host,
        now_ms,
        store_host,
        tries,
        prepared_offset,
    )
    fields = (log_offset, log_offset + size, queue_offset)
    return tuple.__new__(Appended, fields)  # half the time of Appended(…)
