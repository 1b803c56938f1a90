"""Which places of a topic's queues a look takes: nothing is received, nothing changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin

SHOWN_MAX: Final = 25
SCANNED_MAX: Final = 200
"""Messages read for one page, where a filter passes few."""
SQL_SCANNED_MAX: Final = 4_000
"""Messages that brokers look at for one page, where they filter."""
MODES: Final = ("newest", "oldest", "offset", "time")


class QueuePlace(NamedTuple):
    broker: str
    queue_id: int
    offset: int


class WantedScan(NamedTuple):
    first: QueuePlace
    backwards: bool
    scanned_max: int


@dataclass(frozen=True, slots=True)
class PeekFilter:
    """Empty parts let everything through."""

    tag: str = ""
    key: str = ""
    text: str = ""
    """In the body or in a property, without regard to case."""
    sql: str = ""
    """An SQL 92 expression over the properties; brokers look, not this console."""

    def passes(self, message: admin.StoredMessage) -> bool:
        if self.tag and message.tag != self.tag:
            return False
        if self.key and self.key not in message.keys and self.key != message.message_id:
            return False
        if not self.text:
            return True
        wanted = self.text.lower()
        if wanted.encode() in message.body.lower():
            return True
        return any(wanted in value.lower() for value in message.properties.values())

    def __bool__(self) -> bool:
        return bool(self.tag or self.key or self.text or self.sql)


def newest_places(queues: Sequence[admin.TopicQueue], count: int) -> list[QueuePlace]:
    """The ends of all queues, as many of each as of the others, as long as there are any."""
    return _spread([_backwards(queue, queue.max_offset) for queue in queues], count)


def oldest_places(queues: Sequence[admin.TopicQueue], count: int) -> list[QueuePlace]:
    return _spread([_forwards(queue, queue.min_offset) for queue in queues], count)


def places_from(
    queues: Sequence[admin.TopicQueue], starts: Sequence[int], count: int
) -> list[QueuePlace]:
    """From an offset of each queue on."""
    pairs = zip(queues, starts, strict=True)
    return _spread([_forwards(queue, start) for queue, start in pairs], count)


def _forwards(queue: admin.TopicQueue, start: int) -> list[QueuePlace]:
    first = max(queue.min_offset, start)
    offsets = range(first, min(queue.max_offset, first + SCANNED_MAX))
    return [QueuePlace(queue.broker, queue.queue_id, offset) for offset in offsets]


def _backwards(queue: admin.TopicQueue, end: int) -> list[QueuePlace]:
    first = max(queue.min_offset, end - SCANNED_MAX)
    offsets = range(end - 1, first - 1, -1)
    return [QueuePlace(queue.broker, queue.queue_id, offset) for offset in offsets]


def scans(
    queues: Sequence[admin.TopicQueue], mode: str, starts: Sequence[int], scanned_max: int
) -> list[WantedScan]:
    """What brokers are to look through. `starts`: of each queue, for the modes that have some; each
    queue gets the same share of `scanned_max`."""
    share = max(1, scanned_max // max(1, len(queues)))
    found = []
    for queue, start in zip(queues, starts, strict=True):
        backwards = mode == "newest"
        offset = {"newest": queue.max_offset - 1, "oldest": queue.min_offset}.get(mode, start)
        if queue.min_offset < queue.max_offset:
            place = QueuePlace(queue.broker, queue.queue_id, max(offset, 0))
            found.append(WantedScan(place, backwards, share))
    return found


def _spread(lines: Sequence[Sequence[QueuePlace]], count: int) -> list[QueuePlace]:
    """In turns."""
    found: list[QueuePlace] = []
    for turn in range(max(map(len, lines), default=0)):
        found += [line[turn] for line in lines if turn < len(line)]
        if len(found) >= count:
            break
    return found[:count]


def chosen_queues(
    queues: Sequence[admin.TopicQueue], broker: str, queue_id: int | None
) -> list[admin.TopicQueue]:
    """Empty and None: all."""
    return [
        queue
        for queue in queues
        if (not broker or queue.broker == broker) and queue_id in (None, queue.queue_id)
    ]


def queue_of(text: str) -> tuple[str, int | None]:
    """[BROKER:]QUEUE; empty: all. Raises `ValueError`."""
    if not text:
        return "", None
    broker, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise ValueError(f"{text!r} is no queue: write 0 or broker-a:0")
    return broker, int(number)
