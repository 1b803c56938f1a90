"""Everything that is stored under one message id: the message, its retries, its dead letters, what
waits for its time, its half message.

The index is asked topic by topic, for its keys begin with the topic. A search is given up when it
takes long, and says so.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from popmq_broker.core.retries.redrive import read as read_dead_letter
from popmq_broker.core.timers import timer
from popmq_broker.core.transactions import transaction
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.inspect.find import message_of
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.retries.dead_letters import DeadLetters
from popmq_broker.engine.timers.timer import Timers
from popmq_broker.store.index.index import Index
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    LEVELS_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
    is_user_topic,
)
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

COPIES_MAX: Final = 200
"""Of one message id; the newest are told."""
SEARCH_SECONDS_MAX: Final = 3.0
TURN_TOPICS: Final = 16
"""Looked into before other work gets its turn."""
_ID: Final = (names.UNIQ_KEY + names.NAME_END).encode()
_SYSTEM: Final = (TIMER_TOPIC, LEVELS_TOPIC, HALF_TOPIC, GIVEN_UP_TOPIC)


class Copies:
    def __init__(
        self,
        catalog_state: CatalogState,
        halves: HalfTable,
        timers: Timers,
        dead_letters: DeadLetters,
    ) -> None:
        self._catalog_state = catalog_state
        self._halves = halves
        self._timers = timers
        self._dead_letters = dead_letters

    def topics(self, topic: str) -> list[str]:
        """Where something of it may lie: of a message sent to `topic`, or to any."""
        known = self._catalog_state.topics
        if not topic:
            return [name for name in known if name in _SYSTEM or _may_hold(name)]
        retries = [
            name
            for name in known
            if name.startswith(DEAD_LETTER_PREFIX)
            or (name.startswith(RETRY_PREFIX) and name.endswith(f"_{topic}"))
        ]
        return [topic, *retries, *(name for name in _SYSTEM if name in known)]

    async def find(
        self, index: Index, message_id: str, topics: Iterable[str], reply: link.ExplainReply
    ) -> None:
        """Into `reply`, oldest first. Raises `IndexDamaged`."""
        until_s = time.monotonic() + SEARCH_SECONDS_MAX
        found: dict[int, Record] = {}
        for number, topic in enumerate(topics, 1):
            if number % TURN_TOPICS == 0:
                await asyncio.sleep(0)
            for log_offset in index.candidates(topic, message_id, 0, 1 << 62):
                if log_offset is None or log_offset in found:
                    continue
                try:
                    record = index.read(log_offset)
                except Corrupt:  # whether it is one of them nobody can say
                    reply.incomplete = True
                    continue
                if record is None or record.topic != topic:
                    continue
                if names.value_of(record.properties, _ID) == message_id:
                    found[log_offset] = record
            reply.expired_entries += index.gone_count(topic, message_id)
            reply.topics_searched = number
            if len(found) > COPIES_MAX or time.monotonic() > until_s:
                reply.incomplete = True
                break
        records = [found[log_offset] for log_offset in sorted(found)[-COPIES_MAX:]]
        ended = _ended_waits(records)
        for record in records:
            reply.copies.append(await self._copy(record, ended))

    async def _copy(self, record: Record, ended: set[str]) -> link.KnownCopy:
        stored = message_of(record, 0)
        copy = link.KnownCopy(stored=stored, topic=record.topic)
        if record.topic.startswith(RETRY_PREFIX):
            copy.kind = link.COPY_KIND_RETRY
            copy.group, copy.topic = self._retry_of(record.topic)
        elif record.topic.startswith(DEAD_LETTER_PREFIX):
            copy.kind = link.COPY_KIND_DEAD_LETTER
            copy.group = record.topic.removeprefix(DEAD_LETTER_PREFIX)
            copy.topic = read_dead_letter(record).topic
            copy.redriven = await self._dead_letters.was_redriven(copy.group, record.queue_offset)
        elif record.topic in (TIMER_TOPIC, LEVELS_TOPIC):
            self._tell_delay(copy, record, ended)
        elif record.topic == HALF_TOPIC:
            self._tell_half(copy, record)
        elif record.topic == GIVEN_UP_TOPIC:
            copy.kind = link.COPY_KIND_GIVEN_UP
            copy.topic = stored.properties.get(names.REAL_TOPIC, "")
        if copy.kind not in (link.COPY_KIND_HALF, link.COPY_KIND_GIVEN_UP):
            first = self._catalog_state.min_offset(record.topic, record.queue_id)
            copy.unreadable = record.queue_offset < first
        topic = self._catalog_state.topics.get(record.topic)
        if topic is not None and topic.drains and record.queue_id >= topic.write_queues:
            copy.write_queues = topic.write_queues
        return copy

    def _retry_of(self, name: str) -> tuple[str, str]:
        """(group, topic): the name alone does not say where one ends and the other begins."""
        rest = name.removeprefix(RETRY_PREFIX)
        for group in self._catalog_state.groups:
            topic = rest.removeprefix(f"{group}_")
            if topic != rest and topic in self._catalog_state.topics:
                return group, topic
        group, _, topic = rest.partition("_")
        return group, topic

    def _tell_delay(self, copy: link.KnownCopy, record: Record, ended: set[str]) -> None:
        named = copy.stored.properties
        copy.kind = link.COPY_KIND_DELAYED
        copy.topic = named.get(names.REAL_TOPIC, "")
        if record.topic == LEVELS_TOPIC:
            of = f"{record.queue_id + 1}@{record.queue_offset}"
            copy.waits = of not in ended
            return
        entry = timer.entry_of(named, record.queue_offset)
        if named.get(names.TIMER_DEL_KEY) is not None:
            copy.kind = link.COPY_KIND_RECALL
        elif entry is not None:
            copy.due_ms = entry.due_ms
            copy.waits = entry.offset in self._timers.wheel.find(entry.due_ms, entry.code)

    def _tell_half(self, copy: link.KnownCopy, record: Record) -> None:
        copy.kind = link.COPY_KIND_HALF
        half = transaction.half_seen(record)
        copy.topic = half.topic
        halves = self._halves
        still_open = halves.get(half.origin_offset)
        if still_open is not None and still_open.offset == record.queue_offset:
            copy.waits = True
            copy.due_ms, copy.checks = still_open.due_ms, still_open.checks
        elif still_open is None:
            outcome = halves.outcome_of(half.origin_offset, half.origin_log_offset)
            copy.outcome = "" if outcome is None else outcome.value


def _may_hold(name: str) -> bool:
    return is_user_topic(name) or name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def _ended_waits(records: Iterable[Record]) -> set[str]:
    """What waited for its time and does not any more, as the records that ended it name it."""
    return {of for record in records if (of := timer.ended_by(record.properties)) is not None}
