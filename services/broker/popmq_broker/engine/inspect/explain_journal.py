"""What the revive topic says about certain messages: handed out, renewed, nacked, acked, ended.

It is read from where the message was stored, at most `RECORDS_MAX` records; what came behind that
is only known as far as the lease table knows it. Of pop_buffer=memory it holds what was written.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from popmq_broker.core.groups import starts
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import QueueEntry
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.seek import entries_from, first_stored_at
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

RECORDS_MAX: Final = 40_000
"""Read for one question, some 10 µs each."""
SECONDS_MAX: Final = 2.0
TURN_RECORDS: Final = 256
"""Read before other work gets its turn."""
LINES_MAX: Final = 400
_TAG: Final = (names.TAGS + names.NAME_END).encode()


class StoredPlace(NamedTuple):
    """Where a message is, as stored."""

    topic: str
    queue_id: int
    offset: int


async def read_journal(
    runtime: Runtime, places: Iterable[StoredPlace], since_ms: int, reply: link.ExplainReply
) -> None:
    """The lines about these places into `reply`, oldest first."""
    wanted = frozenset(places)
    if not wanted:
        return
    marks = [f'"t":"{topic}"'.encode() for topic in {place.topic for place in wanted}]
    until_s = time.monotonic() + SECONDS_MAX
    lines: list[link.JournalLine] = []
    count = 0
    for revive_queue in range(runtime.config.revive_queues):
        for entry in _since(runtime, revive_queue, since_ms):
            count += 1
            if count % TURN_RECORDS == 0:
                await asyncio.sleep(0)
            try:
                record = runtime.store.read(entry.log_offset, entry.size_bytes)
            except Corrupt:
                reply.incomplete = True
                continue
            if record is None:
                continue
            if count > RECORDS_MAX or len(lines) > LINES_MAX or time.monotonic() > until_s:
                read_to_ms = record.store_timestamp_ms
                reply.journal_until_ms = min(reply.journal_until_ms or read_to_ms, read_to_ms)
                break
            if any(mark in record.body for mark in marks):
                lines += _lines(record, wanted)
    lines = _with_starts(_without_replaced(lines), wanted)
    lines.sort(key=lambda line: (line.at_ms, line.generation))
    _name_extensions(lines)
    reply.journal.extend(lines)


def _name_extensions(lines: list[link.JournalLine]) -> None:
    """A lease of the same generation once more lasts longer: nothing was handed out."""
    seen: set[tuple[str, str, int, int, int]] = set()
    for line in lines:
        if line.kind in (link.JOURNAL_KIND_HANDED_OUT, link.JOURNAL_KIND_HELD_ANEW):
            lease = (*_owner(line), line.generation)
            if lease in seen:
                line.kind = link.JOURNAL_KIND_RENEWED
            seen.add(lease)


def _without_replaced(lines: list[link.JournalLine]) -> list[link.JournalLine]:
    """A lease that took the place of another wrote an ack of that; nobody has acked anything."""
    replaced = {
        (*_owner(line), line.generation - 1, line.at_ms)
        for line in lines
        if line.kind in (link.JOURNAL_KIND_NACKED, link.JOURNAL_KIND_HELD_ANEW)
    }
    return [
        line
        for line in lines
        if line.kind != link.JOURNAL_KIND_ACKED
        or (*_owner(line), line.generation, line.at_ms) not in replaced
    ]


def _with_starts(
    lines: list[link.JournalLine], wanted: frozenset[StoredPlace]
) -> list[link.JournalLine]:
    """A group's start sets its position in every queue; it matters to what lies before."""
    started = {
        (line.group, line.topic, line.at_ms)
        for line in lines
        if line.kind == link.JOURNAL_KIND_STARTED
    }
    found = []
    for line in lines:
        if line.kind == link.JOURNAL_KIND_MOVED and (line.group, line.topic, line.at_ms) in started:
            line.kind = link.JOURNAL_KIND_STARTED
            if any(_lies_before(place, line) for place in wanted):
                found.append(line)
        elif line.kind != link.JOURNAL_KIND_STARTED:
            found.append(line)
    return found


def _lies_before(place: StoredPlace, line: link.JournalLine) -> bool:
    in_queue = (place.topic, place.queue_id) == (line.topic, line.queue_id)
    return in_queue and place.offset < line.offset


def _owner(line: link.JournalLine) -> tuple[str, str, int, int]:
    return line.group, line.topic, line.queue_id, line.offset


def _since(runtime: Runtime, revive_queue: int, since_ms: int) -> Iterator[QueueEntry]:
    topic = runtime.revive_topic
    low = runtime.store.min_offset(topic, revive_queue)
    start = first_stored_at(runtime.store, topic, revive_queue, low, since_ms)
    for _, entry in entries_from(runtime.store, topic, revive_queue, start):
        yield entry


def _lines(record: Record, wanted: frozenset[StoredPlace]) -> Iterator[link.JournalLine]:
    where = f"revive topic, log offset {record.log_offset}"
    tag = names.value_of(record.properties, _TAG)
    at_ms = record.store_timestamp_ms
    if tag == ck.CHECKPOINT_TAG:
        checkpoint = ck.decode_checkpoint(record.body, where=where)
        if checkpoint.offsets:
            yield from _of_checkpoint(checkpoint, wanted, at_ms)
        elif any(_is_in(place, checkpoint) for place in wanted):
            yield link.JournalLine(
                kind=link.JOURNAL_KIND_MOVED,
                at_ms=at_ms,
                group=checkpoint.group,
                topic=checkpoint.topic,
                queue_id=checkpoint.queue_id,
                offset=checkpoint.start_offset,
            )
    elif tag == starts.START_TAG and not starts.tells_reset(record.body):
        (group, topic), _ = starts.decode(record.body, where=where)
        kind = link.JOURNAL_KIND_STARTED
        yield link.JournalLine(kind=kind, at_ms=at_ms, group=group, topic=topic)
    elif tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
        ack = ck.decode_ack(record.body, where=where)
        for offset in ack.offsets:
            if StoredPlace(ack.topic, ack.queue_id, offset) in wanted:
                yield link.JournalLine(
                    kind=link.JOURNAL_KIND_ENDED if ack.expired else link.JOURNAL_KIND_ACKED,
                    at_ms=at_ms,
                    group=ack.group,
                    topic=ack.topic,
                    queue_id=ack.queue_id,
                    offset=offset,
                    generation=ack.generation,
                )


def _is_in(place: StoredPlace, checkpoint: ck.Checkpoint) -> bool:
    return (place.topic, place.queue_id) == (checkpoint.topic, checkpoint.queue_id)


def _of_checkpoint(
    checkpoint: ck.Checkpoint, wanted: frozenset[StoredPlace], at_ms: int
) -> Iterator[link.JournalLine]:
    for number, offset in enumerate(checkpoint.offsets):
        if StoredPlace(checkpoint.topic, checkpoint.queue_id, offset) not in wanted:
            continue
        line = link.JournalLine(
            kind=_kind(checkpoint, at_ms),
            at_ms=at_ms,
            group=checkpoint.group,
            topic=checkpoint.topic,
            queue_id=checkpoint.queue_id,
            offset=offset,
            generation=checkpoint.generation,
            until_ms=checkpoint.due_ms,
            client_id=checkpoint.client_id,
        )
        if number < len(checkpoint.attempts):
            line.attempt = checkpoint.attempts[number]
        if checkpoint.nack is not None:
            line.nack_kind = link.NackKind.ValueType(checkpoint.nack.kind)
            line.reason = checkpoint.nack.reason
        yield line


def _kind(checkpoint: ck.Checkpoint, at_ms: int) -> "link.JournalKind.ValueType":
    """A renewal is the same checkpoint once more, with a longer time; `_name_extensions` finds
    those that do not tell by how much."""
    if checkpoint.nack is not None:
        return link.JOURNAL_KIND_NACKED
    if checkpoint.renew_ms and checkpoint.invisible_ms > checkpoint.renew_ms:
        return link.JOURNAL_KIND_RENEWED
    if checkpoint.generation > 1 and not checkpoint.attempts:
        return link.JOURNAL_KIND_HELD_ANEW
    return link.JOURNAL_KIND_HANDED_OUT
