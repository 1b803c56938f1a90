"""Messages of a topic by their place: read from the log, received by nobody."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.readings import is_system, message_at
from popmq_console.reading.calls import SEARCH_S, CallFailed, Failure, each
from popmq_console.reading.peeking import (
    MODES,
    SCANNED_MAX,
    SHOWN_MAX,
    SQL_SCANNED_MAX,
    PeekFilter,
    QueuePlace,
    WantedScan,
    chosen_queues,
    newest_places,
    oldest_places,
    places_from,
    queue_of,
    scans,
)
from popmq_console.visit import Visit
from popmq_readings.times import point_in_time

TEXT_MAX: Final = 256
SQL_CHARS_MAX: Final = 4_096
QUEUES_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class PeekAsked:
    mode: str = "newest"
    at: str = ""
    """An offset, or a time, as it was written."""
    offset: int = 0
    time_ms: int = 0
    queue: str = ""
    wanted: PeekFilter = field(default_factory=PeekFilter)


@dataclass(frozen=True, slots=True)
class Peek:
    asked: PeekAsked
    messages: list[admin.StoredMessage]
    scanned: int
    more: bool
    """The look ended before the messages did."""


def peek_asked(parameters: Mapping[str, str], now_ms: int) -> PeekAsked:
    """Raises `ValueError`."""
    mode = parameters.get("peek", "newest")
    if mode not in MODES:
        raise ValueError(f"{mode!r} is none of {', '.join(MODES)}")
    at, offset, time_ms = parameters.get("at", "").strip(), 0, 0
    if mode == "offset":
        if not (at.isascii() and at.isdigit() and len(at) <= 18):
            raise ValueError("say which offset: a number")
        offset = int(at)
    elif mode == "time":
        time_ms = point_in_time(at, now_ms)
    queue = parameters.get("queue", "").strip()
    queue_of(queue)
    words = {name: parameters.get(name, "").strip()[:TEXT_MAX] for name in ("tag", "key", "text")}
    sql = parameters.get("sql", "").strip()
    if len(sql) > SQL_CHARS_MAX:
        raise ValueError(f"the SQL has {len(sql)} characters, at most {SQL_CHARS_MAX}")
    if sql and words["key"]:
        raise ValueError("look for a key or by SQL, not by both; SQL may say KEYS = 'k'")
    return PeekAsked(mode, at, offset, time_ms, queue, PeekFilter(**words, sql=sql))


async def peeked(
    visit: Visit, topic: str, queues: list[admin.TopicQueue], asked: PeekAsked
) -> Peek:
    """Raises `CallFailed`."""
    queues = chosen_queues(queues, *queue_of(asked.queue))[:QUEUES_MAX]
    if asked.wanted.key:
        return await _by_key(visit, topic, asked)
    if asked.wanted.sql:
        return await _by_sql(visit, topic, queues, asked)
    count = SCANNED_MAX if asked.wanted else SHOWN_MAX
    if asked.mode == "newest":
        places = newest_places(queues, count)
    elif asked.mode == "oldest":
        places = oldest_places(queues, count)
    else:
        starts = [asked.offset] * len(queues)
        if asked.mode == "time":
            starts = await each(lambda one: _first_since(visit, topic, one, asked.time_ms), queues)
        places = places_from(queues, starts, count)
    found = await _messages_at(visit, topic, places)
    passed = [one for one in found if asked.wanted.passes(one)]
    newest_first = asked.mode == "newest"
    passed.sort(key=lambda one: (one.stored_ms, one.log_offset), reverse=newest_first)
    more = len(places) == count or len(passed) > SHOWN_MAX
    return Peek(asked, passed[:SHOWN_MAX], len(found), more)


async def newest_with(visit: Visit, topic: str, text: str, count: int) -> list[admin.StoredMessage]:
    """Of the newest `count` messages of a topic those that have the text in body or properties.
    Raises `CallFailed`."""
    shown = await visit.ask("DescribeTopic", admin.DescribeTopicRequest(name=topic))
    places = newest_places(list(shown.queues)[:QUEUES_MAX], count)
    wanted = PeekFilter(text=text)
    return [one for one in await _messages_at(visit, topic, places) if wanted.passes(one)]


async def _messages_at(
    visit: Visit, topic: str, places: Sequence[QueuePlace]
) -> list[admin.StoredMessage]:
    """Of the places that still have one. Raises `CallFailed`."""
    found = await each(lambda at: message_at(visit, topic, at), places)
    return [one for one in found if one is not None]


async def _by_key(visit: Visit, topic: str, asked: PeekAsked) -> Peek:
    """The index knows where they are. Raises `CallFailed`."""
    request = admin.FindMessagesRequest(topic=topic, key=asked.wanted.key, count_max=64)
    found = await visit.ask("FindMessages", request, timeout_s=SEARCH_S)
    passed = [one for one in found.messages if asked.wanted.passes(one)]
    return Peek(asked, passed[:SHOWN_MAX], len(found.messages), found.incomplete)


async def _by_sql(
    visit: Visit, topic: str, queues: list[admin.TopicQueue], asked: PeekAsked
) -> Peek:
    """Brokers look through their queues. Raises `CallFailed`."""
    if visit.console.config.masks.hide_properties_of(topic):
        text = "properties of this topic's messages are masked, so SQL cannot look for them"
        raise CallFailed(Failure.REFUSED, text)
    starts = [asked.offset] * len(queues)
    if asked.mode == "time":
        starts = await each(lambda one: _first_since(visit, topic, one, asked.time_ms), queues)
    wanted = scans(queues, asked.mode, starts, SQL_SCANNED_MAX)

    async def look(scan: WantedScan) -> admin.PeekMessagesResponse:
        request = admin.PeekMessagesRequest(
            topic=topic,
            broker=scan.first.broker,
            queue_id=scan.first.queue_id,
            offset=scan.first.offset,
            backwards=scan.backwards,
            sql=asked.wanted.sql,
            count_max=SHOWN_MAX,
            scanned_max=scan.scanned_max,
            system=is_system(topic),
            whole=True,
        )
        found: admin.PeekMessagesResponse = await visit.ask("PeekMessages", request)
        return found

    pages = await each(look, wanted)
    found = [one for page in pages for one in page.messages]
    passed = [one for one in found if asked.wanted.passes(one)]
    passed.sort(key=lambda one: (one.stored_ms, one.log_offset), reverse=asked.mode == "newest")
    more = len(passed) > SHOWN_MAX or any(page.more for page in pages)
    return Peek(asked, passed[:SHOWN_MAX], sum(page.scanned for page in pages), more)


async def _first_since(visit: Visit, topic: str, queue: admin.TopicQueue, time_ms: int) -> int:
    """The offset of the queue's first message stored then or later; a binary search, so it reads
    some twenty messages."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        found = await message_at(visit, topic, QueuePlace(queue.broker, queue.queue_id, middle))
        await asyncio.sleep(0)
        if found is None or found.stored_ms < time_ms:
            low = middle + 1
        else:
            high = middle
    return low
