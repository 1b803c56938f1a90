"""Where a group starts in a topic: one moment, the same at every broker.

A group that starts at the last message gets what is sent after that moment, and nothing sent
before. So every broker of the topic is told the moment before the group's first receive is
answered. It fixes a position in each queue then; a queue, a topic or a broker that comes later has
only messages sent after the moment, and is read from its first one.

    revive topic   tag `start`: c group · t topic · pt moment in ms · sk messages skipped ·
                   f, ft: LAST, FIRST or TIME and its ms, where a consumer named the place itself ·
                   x 1: the group was deleted, it has no start any more
                   r 1: the group was reset in the topic, so nothing counts as skipped
                   RocketMQ's reader passes over tags it does not know.

Source: none. RocketMQ fixes the start of each queue at that queue's first pop.
"""

import json
from typing import Final, NamedTuple

from popmq_common.errors import Corrupt

START_TAG: Final = "start"
CLOCKS_DIFFER_MS_MAX: Final = 5_000
"""By how much the clocks of two brokers may differ without a message being skipped."""
STARTS_MAX: Final = 200_000
"""Of all groups and topics at one broker."""


class StartKey(NamedTuple):
    group: str
    topic: str


class GroupStart(NamedTuple):
    at_ms: int
    """The moment, by the clock of the proxy that saw the first receive."""
    skipped: int
    """Messages of the topic that this broker had then and the group does not get."""
    consume_from: str = ""
    """LAST, FIRST or TIME instead of the group's, for brokers that are told later; empty: as the
    group's settings say."""
    consume_from_ms: int = 0


def position_by_end(end: int | None, low: int, high: int) -> int:
    """Where a queue begins that ended at `end` when this broker was asked; None: it came since."""
    return low if end is None else min(max(end, low), high)


def position_by_time_ms(at_ms: int) -> int:
    """From which store time on a broker that was away reads, so that no message sent after the
    moment is skipped; some sent shortly before it may come too."""
    return max(0, at_ms - CLOCKS_DIFFER_MS_MAX)


def encode(key: StartKey, start: GroupStart | None, *, was_reset: bool = False) -> bytes:
    """The record's body; None: the group has no start in the topic any more."""
    fields: dict[str, object] = {"c": key.group, "t": key.topic}
    if start is None:
        fields["x"] = 1
    else:
        fields |= {"pt": start.at_ms, "sk": start.skipped, **({"r": 1} if was_reset else {})}
        if start.consume_from:
            fields |= {"f": start.consume_from, "ft": start.consume_from_ms}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(body: bytes, *, where: str) -> tuple[StartKey, GroupStart | None]:
    """Raises `Corrupt` naming `where`."""
    try:
        fields = json.loads(body)
        key = StartKey(str(fields["c"]), str(fields["t"]))
        if fields.get("x"):
            return key, None
        place = str(fields.get("f", "")), int(fields.get("ft", 0))
        return key, GroupStart(int(fields["pt"]), int(fields["sk"]), *place)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no start of a group: {wrong!r}") from wrong


def tells_reset(body: bytes) -> bool:
    """The group has not started then, it was reset. Of a record that `decode` reads."""
    return "r" in json.loads(body)


def record_key(key: StartKey, at_ms: int) -> str:
    """The record's UNIQ_KEY."""
    return f"{key.topic}@{key.group}@{at_ms}@{START_TAG}"
