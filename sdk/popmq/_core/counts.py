"""What a client counts of its messages, for the audit: how many, and which.

A row is of one outcome, topic, group and minute. Which messages it counts is told by the sum of the
CRC-32 of their ids, which does not depend on their order: two sides that count as many of other
messages are found out. The minute of what was sent is that of its born time, which the broker
stores; the minute of what was received is that of the pop time in its receipt handle, which the
broker's journal has. So both sides put a message into the same minute, whatever their clocks say.

A report has what was counted since the last one, and a number of its own: a lost one leaves a hole.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

MINUTE_MS: Final = 60_000
ROWS_MAX: Final = 1_000
"""Of a report; what has no row there is told as a number alone."""
ERAS_MAX: Final = 64
"""Minutes of which messages may still be unanswered."""
DIGEST_MASK: Final = (1 << 63) - 1


class MessageFate(IntEnum):
    """As in consumer.proto."""

    SENT = 1
    REFUSED = 2
    UNKNOWN = 3
    RECEIVED = 4
    ACKED = 5
    NACKED = 6
    REJECTED = 7


class CountKey(NamedTuple):
    counted_as: MessageFate
    topic: str
    group: str
    """Empty: of what was sent."""
    minute: int
    """Since 1970."""


class Count:
    __slots__ = ("digest", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.digest = 0


class CountsTaken(NamedTuple):
    sequence: int
    from_ms: int
    until_ms: int
    is_last: bool
    uncounted: int
    rows: dict[CountKey, Count]


class Counts:
    """Of one client. Its ids grow: one made later is the greater text."""

    def __init__(self, now_ms: int) -> None:
        self._rows: dict[CountKey, Count] = {}
        self._uncounted = 0
        self._from_ms = now_ms
        self._sequence = 0
        self._minute = -1
        self._era_ids: list[str] = []
        self._era_minutes: list[int] = []

    def drafted(self, message_id: str, now_ms: int) -> None:
        """An id was given to a message that is born now."""
        if now_ms // MINUTE_MS != self._minute:
            self._begin_era(message_id, now_ms // MINUTE_MS)

    def _begin_era(self, message_id: str, minute: int) -> None:
        self._minute = minute
        self._era_ids.append(message_id)
        self._era_minutes.append(minute)
        if len(self._era_ids) > ERAS_MAX:
            del self._era_ids[0], self._era_minutes[0]

    def sends(self, counted_as: MessageFate, topic: str, ids: Sequence[str]) -> None:
        """What became of messages that were drafted here."""
        if not ids:
            return
        if min(ids) >= self._era_ids[-1]:
            self._add(CountKey(counted_as, topic, "", self._era_minutes[-1]), ids)
            return
        by_minute: dict[int, list[str]] = {}
        for one in ids:
            era = bisect_right(self._era_ids, one) - 1
            if era < 0:
                self._uncounted += 1
            else:
                by_minute.setdefault(self._era_minutes[era], []).append(one)
        for minute, some in by_minute.items():
            self._add(CountKey(counted_as, topic, "", minute), some)

    def deliveries(
        self,
        counted_as: MessageFate,
        topic: str,
        group: str,
        ids: Sequence[str],
        handles: Iterable[str],
    ) -> None:
        """What became of messages that were received. `handles`: of the same, in their order. Those
        that tell no pop time, of another server, are not counted."""
        try:
            times = [handle.split(" ", 2)[1] for handle in handles]
            minutes = {time: int(time) // MINUTE_MS for time in set(times)}
        except (IndexError, ValueError):
            self._uncounted += len(ids)
            return
        if len(minutes) == 1:
            self._add(CountKey(counted_as, topic, group, minutes[times[0]]), ids)
            return
        by_minute: dict[int, list[str]] = {}
        for one, time in zip(ids, times, strict=True):
            by_minute.setdefault(minutes[time], []).append(one)
        for minute, some in by_minute.items():
            self._add(CountKey(counted_as, topic, group, minute), some)

    def _add(self, key: CountKey, ids: Sequence[str]) -> None:
        count = self._rows.get(key)
        if count is None:
            if len(self._rows) >= ROWS_MAX:
                self._uncounted += len(ids)
                return
            count = self._rows[key] = Count()
        count.messages += len(ids)
        count.digest += sum(map(crc32, map(_ENCODE, ids)))

    def take(self, now_ms: int, *, is_last: bool = False) -> CountsTaken | None:
        """What was counted since the last report; None: nothing was."""
        if not self._rows and not self._uncounted and not (is_last and self._sequence):
            return None
        report = CountsTaken(
            self._sequence, self._from_ms, now_ms, is_last, self._uncounted, self._rows
        )
        self._sequence += 1
        self._from_ms, self._rows, self._uncounted = now_ms, {}, 0
        return report


_ENCODE: Final[Callable[[str], bytes]] = str.encode
