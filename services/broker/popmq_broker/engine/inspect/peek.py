"""A queue looked through: messages that a filter passes, read by their place.

Nothing is received: no lease, no position, no group notices. How many messages are looked at is
bounded, and the answer tells where to go on. What is shown could have been received, as of Find.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from popmq_broker.core.filters.filter import Filter
from popmq_broker.core.store.queue_entry import QueueEntry
from popmq_broker.engine.inspect.find import BODY_BYTES_MAX, message_of
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.pop import wanted_by
from popmq_common.errors import BadRequest, Corrupt, TopicNotFound
from popmq_common.records.names import CATALOG_TOPIC, is_user_topic
from popmq_internal.v1 import link_pb2 as link

COUNT_MAX: Final = 100
SCANNED_MAX: Final = 10_000
ENTRIES_EACH: Final = 64
"""Looked at before other work gets its turn."""
SECONDS_MAX: Final = 2.0
"""Then the look ends, and says where to go on."""


class QueueLook:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state

    async def peek(self, request: link.PeekMessages) -> link.PeekReply:
        """Raises `TopicNotFound`, `IllegalFilter`, `BadRequest`."""
        wanted = self._check(request)
        reply = link.PeekReply(next_offset=request.offset)
        room_bytes = BODY_BYTES_MAX
        until_s = time.monotonic() + SECONDS_MAX
        for offset, entry in self._entries(request):
            if reply.scanned and reply.scanned % ENTRIES_EACH == 0:
                await asyncio.sleep(0)
                if time.monotonic() > until_s:
                    break
            found = self._looked_at(entry, wanted, request, reply)
            if found is not None:
                room_bytes -= len(found.body)
                if reply.messages and room_bytes < 0:
                    break
                reply.messages.append(found)
            reply.scanned += 1
            reply.next_offset = offset - 1 if request.backwards else offset + 1
            if len(reply.messages) >= request.count_max or reply.scanned >= request.scanned_max:
                break
        first, end = self._bounds(request)
        reply.more = first <= reply.next_offset < end
        return reply

    def _looked_at(
        self, entry: QueueEntry, wanted: Filter, request: link.PeekMessages, reply: link.PeekReply
    ) -> link.StoredMessage | None:
        """None: the filter does not pass it, or it cannot be read."""
        if wanted is not None and not wanted.may_match(entry.tags_code):
            return None
        try:
            record = self._runtime.store.read(entry.log_offset, entry.size_bytes)
        except Corrupt:
            record = None
        if record is None:
            reply.unreadable += 1
            return None
        if wanted is not None and not wanted.matches(record.properties):
            return None
        return message_of(record, request.body_bytes_max)

    def _entries(self, request: link.PeekMessages) -> Iterator[tuple[int, QueueEntry]]:
        """(offset, entry) in the order asked for, as the queue is when each is reached."""
        store, topic, queue_id = self._runtime.store, request.topic, request.queue_id
        first, end = self._bounds(request)
        at = min(request.offset, end - 1) if request.backwards else max(request.offset, first)
        while first <= at < end:
            start = max(first, at - ENTRIES_EACH + 1) if request.backwards else at
            count = at - start + 1 if request.backwards else ENTRIES_EACH
            found = list(enumerate(store.entries(topic, queue_id, start, count), start))
            if not found:
                return
            yield from reversed(found) if request.backwards else found
            at = start - 1 if request.backwards else at + len(found)
            first, end = self._bounds(request)

    def _bounds(self, request: link.PeekMessages) -> tuple[int, int]:
        """Of what can be read: the first offset, and the one behind the last."""
        first = self._catalog_state.min_offset(request.topic, request.queue_id)
        return first, self._runtime.store.max_offset(request.topic, request.queue_id)

    def _check(self, request: link.PeekMessages) -> Filter:
        config = self._catalog_state.topics.get(request.topic)
        if config is None or request.topic == CATALOG_TOPIC:  # the latter has secrets
            raise TopicNotFound(topic=request.topic)
        if not (request.system or is_user_topic(request.topic)):
            raise TopicNotFound(topic=request.topic)
        queues = max(config.read_queues, config.write_queues)
        if not 0 <= request.queue_id < queues:
            raise BadRequest(reason=f"queue {request.queue_id}, {request.topic} has {queues}")
        if not 1 <= request.count_max <= COUNT_MAX:
            reason = f"{request.count_max} messages, 1 to {COUNT_MAX} are shown by one request"
            raise BadRequest(reason=reason)
        if not 1 <= request.scanned_max <= SCANNED_MAX:
            reason = f"{request.scanned_max} messages, 1 to {SCANNED_MAX} are looked at by one"
            raise BadRequest(reason=f"{reason} request")
        if request.body_bytes_max < 0 or request.offset < -1:
            raise BadRequest(reason="offset and size of a body are no negative numbers")
        return wanted_by(request.filter_kind, request.filter_expression)
