"""Dead letters for operators: read without leases, and sent again.

A dead letter is sent again once, to its group alone or to its topic. The mark that says so goes
into the log directly behind the new message, in one append: both are there after a crash or
neither. Marks are read from their topic at the first call for a group and kept from then on; see
core/retries/redrive.py, and engine/retries/purge.py for what is deleted.
"""

import asyncio
from collections.abc import Iterator

from popmq_broker.core.catalog.tables import PERM_WRITE
from popmq_broker.core.retries import redrive
from popmq_broker.core.retries.redrive import Selection, StoredDeadLetter
from popmq_broker.core.store.queue_entry import QueueEntry, tags_code
from popmq_broker.core.store.ranges import Ranges
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.store import Draft
from popmq_common.errors import BadRequest, Corrupt, TooManyRequests
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records.names import RETRY_PREFIX, check_group, dead_letter_topic
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

COUNT_MAX = 1_000
"""Messages of one call."""
SCAN_ENTRIES_MAX = 1_024
SCAN_BYTES_MAX = 16 << 20
"""Looked at in one call, before other work gets its turn; what is rare is found by asking on."""
BYTES_MAX = 8 << 20
"""Bodies of one call; the first always fits."""
RUNS_MAX = 100_000
"""Of a group: how scattered its marks may be."""
CHUNK_ENTRIES = 256
NOTHING_LEFT = -1


class _Marks:
    """Which dead letters of a group have been sent again."""

    def __init__(self) -> None:
        self.offsets = Ranges()
        self.read_to = 0


class DeadLetters:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, topics: Topics) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._topics = topics
        self._marks: dict[str, _Marks] = {}

    async def browse(self, request: link.ListDeadLetters) -> link.ListDeadLettersReply:
        """From an offset on, oldest first. Raises `GroupNotFound`, `BadRequest`."""
        group, wanted = request.group, _selection(request.filter)
        self._check(group, request.count_max)
        marks = await self._marks_of(group)
        reply = link.ListDeadLettersReply(next_offset=NOTHING_LEFT)
        room_bytes = BYTES_MAX
        scan = self._scan(group, request.from_offset, self._end(group))
        for offset, letter in scan:
            if len(reply.letters) >= request.count_max or room_bytes <= 0 or letter is None:
                reply.next_offset = offset
                break
            if not letter.is_in(wanted):
                continue
            found = _message(offset, letter, redriven=offset in marks.offsets)
            if request.whole:
                found.body = letter.record.body
                found.properties.update(letter.properties)
                room_bytes -= len(letter.record.body)
            reply.letters.append(found)
        if any(found.redriven for found in reply.letters):
            await self._runtime.store.durable(self._runtime.store.log_end)
        return reply

    async def redrive_to_topic(self, request: link.Redrive) -> link.RedriveReply:
        """What older proxies ask."""
        return await self.redrive(link.RedriveDeadLetters(which=request, to_topic=True))

    async def redrive(self, asked: link.RedriveDeadLetters) -> link.RedriveReply:
        """Up to `count_max` of what the filter lets through, answered when they are on disk.

        Raises `GroupNotFound`, `BadRequest`, `TooManyRequests`, `DiskFull`: then nothing was sent.
        """
        request = asked.which
        group, wanted = request.group, _selection(request.filter)
        self._check(group, request.count_max)
        marks = await self._marks_of(group)
        fifo = not asked.to_topic and self._catalog_state.group(group).fifo
        if marks.offsets.run_count + request.count_max > RUNS_MAX:
            what = "gaps between dead letters that were sent again"
            raise TooManyRequests(what=what, limit=RUNS_MAX)
        until = request.until_offset or self._end(group)
        reply = link.RedriveReply(next_offset=NOTHING_LEFT, until_offset=until)
        room_bytes = BYTES_MAX
        chosen: dict[int, list[Draft]] = {}
        for offset, letter in self._scan(group, request.from_offset, until):
            if len(chosen) >= request.count_max or room_bytes <= 0 or letter is None:
                reply.next_offset = offset
                break
            if not letter.is_in(wanted):
                continue
            if offset in marks.offsets:
                reply.already += 1
                continue
            to = letter.topic if asked.to_topic else redrive.retries_of(letter, group, fifo=fifo)
            if not self._may_go(letter.topic, to_topic=asked.to_topic):
                reply.without_topic += 1
            elif to is None:
                reply.in_order += 1
            else:
                chosen[offset] = self._pair(group, offset, letter, to)
                room_bytes -= len(letter.record.body)
        reply.sent = len(chosen)
        if asked.dry_run:
            return reply
        self._append(group, marks, chosen)
        if chosen or reply.already:
            await self._runtime.store.durable(self._runtime.store.log_end)
        return reply

    async def was_redriven(self, group: str, offset: int) -> bool:
        """Whether a dead letter was sent again."""
        return offset in await self.marked(group)

    async def marked(self, group: str) -> Ranges:
        """Dead letters of the group that were sent again."""
        return (await self._marks_of(group)).offsets

    def _append(self, group: str, marks: _Marks, chosen: dict[int, list[Draft]]) -> None:
        if not chosen:
            return
        runtime = self._runtime
        self._topics.ensure_system_copy_target(redrive.marks_topic(group))
        drafts = [draft for pair in chosen.values() for draft in pair]
        for draft in drafts:
            if draft.topic.startswith(RETRY_PREFIX):
                self._topics.ensure_system_copy_target(draft.topic)
        runtime.store.append(drafts, runtime.clock.now_ms())
        for offset in chosen:
            marks.offsets.add(offset, offset + 1)

    def _check(self, group: str, count_max: int) -> None:
        check_group(group)
        if dead_letter_topic(group) not in self._catalog_state.topics:
            self._catalog_state.group(group)
        if not 1 <= count_max <= COUNT_MAX:
            raise BadRequest(reason=f"{count_max} dead letters, 1 to {COUNT_MAX} allowed")

    def _end(self, group: str) -> int:
        return self._runtime.store.max_offset(dead_letter_topic(group), 0)

    def _may_go(self, topic: str, *, to_topic: bool) -> bool:
        config = self._catalog_state.topics.get(topic)
        return config is not None and (not to_topic or bool(config.perm & PERM_WRITE))

    def _scan(
        self, group: str, start: int, end: int
    ) -> Iterator[tuple[int, StoredDeadLetter | None]]:
        """What is there by offset; None: enough was looked at for one call."""
        topic = dead_letter_topic(group)
        at = max(start, self._catalog_state.min_offset(topic, 0))
        end = min(end, self._end(group))
        stop, room_bytes = min(at + SCAN_ENTRIES_MAX, end), SCAN_BYTES_MAX
        while at < stop and room_bytes > 0:
            entries = self._runtime.store.entries(topic, 0, at, min(CHUNK_ENTRIES, stop - at))
            if not entries:
                return
            for entry in entries:
                if room_bytes <= 0:
                    break
                record = self._read(topic, at, entry)
                room_bytes -= entry.size_bytes
                if record is not None:
                    yield at, redrive.read(record)
                at += 1
        if at < end:
            yield at, None

    def _read(self, topic: str, offset: int, entry: QueueEntry) -> Record | None:
        """None: retention has deleted it, or it cannot be read. A dead letter whose mark cannot be
        read may be sent a second time."""
        try:
            return self._runtime.store.read(entry.log_offset, entry.size_bytes)
        except Corrupt as wrong:
            self._runtime.damage.tell((topic, 0), offset, offset + 1, wrong)
            return None

    def _pair(self, group: str, offset: int, letter: StoredDeadLetter, to: str) -> list[Draft]:
        """The message of the second life, in topic `to`, and the mark of the first."""
        record = letter.record
        to_topic, queue_id = to == letter.topic, 0
        properties = redrive.second_life(letter, group, to_topic=to_topic)
        if to_topic:
            first = letter.queue_id if letter.queue_id >= 0 else offset
            queue_id = first % self._catalog_state.topic(to).write_queues
        message = copy_of(record, to, queue_id, properties)._replace(reconsume_times=0)
        key = redrive.mark_key(group, offset)
        mark = Draft(
            topic=redrive.marks_topic(group),
            queue_id=0,
            body=redrive.encode_mark(offset, to),
            properties=names.encode({names.TAGS: redrive.MARK_TAG, names.UNIQ_KEY: key}),
            tags_code=tags_code(redrive.MARK_TAG),
            sys_flag=0,
            flag=0,
            born_timestamp_ms=self._runtime.clock.now_ms(),
            born_host=hosts.LOCAL,
        )
        return [message, mark]

    async def _marks_of(self, group: str) -> _Marks:
        """Up to date when this returns; what is sent from then on is added at once."""
        store, topic = self._runtime.store, redrive.marks_topic(group)
        marks = self._marks.setdefault(group, _Marks())
        marks.read_to = max(marks.read_to, store.min_offset(topic, 0))
        while entries := store.entries(topic, 0, marks.read_to, CHUNK_ENTRIES):
            for entry in entries:
                record = self._read(topic, marks.read_to, entry)
                if record is not None:
                    where = f"{topic}, log offset {entry.log_offset}"
                    offset = redrive.decode_mark(record.body, where=where)
                    marks.offsets.add(offset, offset + 1)
                marks.read_to += 1
            await asyncio.sleep(0)
        return marks


def _selection(asked: link.DeadLetterFilter) -> Selection:
    return Selection(asked.reason, asked.topic, asked.message_id)


def _message(offset: int, letter: StoredDeadLetter, *, redriven: bool) -> link.DeadLetter:
    record = letter.record
    return link.DeadLetter(
        offset=offset,
        topic=letter.topic,
        message_id=letter.message_id,
        attempts=letter.attempts,
        handed_out=letter.handed_out,
        reason=letter.reason,
        stored_ms=record.store_timestamp_ms,
        body_bytes=len(record.body),
        redriven=redriven,
    )
