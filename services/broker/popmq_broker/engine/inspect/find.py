"""Find messages: by key or id through the index, or by their place.

What is shown could have been received: it has a place in a queue that is not before the queue's
first offset, nor of a topic that was deleted since. Half messages of transactions have none, and
delayed ones lie in a topic of the system until it is their time.
"""

import asyncio
import time
from typing import Final

from popmq_broker.core.store.index import keys_of
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.index.index import Index
from popmq_broker.store.seek import record_at
from popmq_common.errors import BadRequest, Corrupt, NoIndex, TopicNotFound
from popmq_common.records import properties as names
from popmq_common.records.names import CATALOG_TOPIC, is_user_topic
from popmq_common.records.record import Record, SysFlag, is_queued
from popmq_internal.v1 import link_pb2 as link

COUNT_MAX: Final = 64
BODY_BYTES_MAX: Final = 8 << 20
"""Bodies of one answer; the first always fits."""
TURN_ENTRIES: Final = 128
"""Looked at before other work gets its turn."""
SEARCH_SECONDS_MAX: Final = 3.0
"""Then the search is given up, and says so."""


class Find:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state

    async def find(self, request: link.FindMessages) -> link.FoundMessages:
        """Newest first. Raises `TopicNotFound`, `NoIndex`, `IndexBehind`, `IndexDamaged`,
        `BadRequest`."""
        self._check_topic(request.topic, system=request.system)
        if not 1 <= request.count_max <= COUNT_MAX:
            reason = f"{request.count_max} messages, 1 to {COUNT_MAX} can be found by one request"
            raise BadRequest(reason=reason)
        if not request.key:
            raise BadRequest(reason="no key and no message id to look for")
        index = self._runtime.store.index
        if index is None:
            raise NoIndex(broker=self._runtime.config.name)
        await index.caught_up()
        return await self._search(index, request)

    async def _search(self, index: Index, request: link.FindMessages) -> link.FoundMessages:
        found = link.FoundMessages()
        begin_ms, end_ms = request.from_ms, request.until_ms or 1 << 62
        until_s = time.monotonic() + SEARCH_SECONDS_MAX
        seen: set[int] = set()
        room_bytes = BODY_BYTES_MAX
        candidates = index.candidates(request.topic, request.key, begin_ms, end_ms)
        for number, log_offset in enumerate(candidates, 1):
            if number % TURN_ENTRIES == 0:
                await asyncio.sleep(0)
                if time.monotonic() > until_s:
                    found.incomplete = True
                    break
            if log_offset is None or log_offset in seen:
                continue
            try:
                record = index.read(log_offset)
            except Corrupt:  # whether it is one of those asked for nobody can say
                found.incomplete = True
                continue
            if record is None or not begin_ms <= record.store_timestamp_ms <= end_ms:
                continue
            if not self._is_wanted(record, request) or not self._is_shown(record):
                continue
            message = message_of(record, request.body_bytes_max)
            room_bytes -= len(message.body)
            if found.messages and room_bytes < 0:
                found.incomplete = True
                break
            seen.add(log_offset)
            found.messages.append(message)
            if len(found.messages) >= request.count_max:
                break
        return found

    async def get(self, request: link.GetMessage) -> link.FoundMessages:
        """One message or none. Raises `TopicNotFound`, `Corrupt`."""
        self._check_topic(request.topic, system=request.system)
        if request.offset < self._catalog_state.min_offset(request.topic, request.queue_id):
            return link.FoundMessages()
        record = record_at(self._runtime.store, request.topic, request.queue_id, request.offset)
        if record is None:
            return link.FoundMessages()
        return link.FoundMessages(messages=[message_of(record, BODY_BYTES_MAX)])

    def _check_topic(self, topic: str, *, system: bool) -> None:
        known = topic in self._catalog_state.topics and topic != CATALOG_TOPIC  # has secrets
        if not known or not (system or is_user_topic(topic)):
            raise TopicNotFound(topic=topic)

    def _is_wanted(self, record: Record, request: link.FindMessages) -> bool:
        """It has the key: hashes collide."""
        if record.topic != request.topic:
            return False
        key = request.key.encode()
        if request.id_only:
            return names.value_of(record.properties, _ID) == request.key
        return key in keys_of(record.properties)

    def _is_shown(self, record: Record) -> bool:
        first = self._catalog_state.min_offset(record.topic, record.queue_id)
        end = self._runtime.store.max_offset(record.topic, record.queue_id)
        return is_queued(record) and first <= record.queue_offset < end


_ID = (names.UNIQ_KEY + names.NAME_END).encode()


def message_of(record: Record, body_bytes_max: int) -> link.StoredMessage:
    """As the link tells it, with so much of its body."""
    return link.StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        offset=record.queue_offset,
        log_offset=record.log_offset,
        stored_ms=record.store_timestamp_ms,
        born_ms=record.born_timestamp_ms,
        reconsume_times=record.reconsume_times,
        body_bytes=len(record.body),
        body=record.body[:body_bytes_max],
        properties=names.decode(record.properties),
        compressed=bool(record.sys_flag & SysFlag.COMPRESSED),
    )
