"""A delayed message's three lives as records, and what ends each of them.

Until its time a message is parked in `rmq_sys_wheel_timer`, queue 0, as RocketMQ does it:

    REAL_TOPIC, REAL_QID     where it goes
    TIMER_OUT_MS             when: the millisecond. RocketMQ rounds down to a second, and takes off
                             a whole one when it is one, so its messages come early
    TIMER_ROLL_TIMES         how often the parked record was written again, see below

What puts an end to a parked record is one other record that names its queue offset, so there is
no half-done state, and the log alone tells what still waits:

    __TIMER_OF               "17", or "17,21": the offsets of what this record ends

    the message              in its real topic, at its time
    a parked record          the same message, written again because the log would be deleted
    the mark of a recall     parked too, body "0", tag _RECALL_TAG_, TIMER_DEL_UNIQKEY TOPIC+ID.
                             Also for a message whose topic is gone at its time

The delivered message is never longer than the parked one: what could be stored can be delivered.

Of the 18 levels see core/timers/timer_levels.py; there `__TIMER_OF` is "LEVEL@OFFSET".

Source: RocketMQ HookUtils, TimerMessageStore, RecallMessageProcessor. Differs: `__TIMER_OF`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from zlib import crc32

from popmq_broker.core.timers import timer_bytes
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_common.errors import IllegalDeliveryTime
from popmq_common.records import properties as names
from popmq_common.records.names import REVIVE_PREFIX
from popmq_common.records.record import Record

RECALL_TAG: Final = "_RECALL_TAG_"
RECALL_BODY: Final = b"0"
_OF, _DELIVER, _NANOS = (
    f"{name}{names.NAME_END}".encode()
    for name in (names.TIMER_OF, names.DELIVER_MS, names.DELIVER_NANOS)
)
_DEQUEUED: Final = f"TIMER_DEQUEUE_MS{names.NAME_END}".encode()
_EVERY: Final = 1 << 62
_DELAYS: Final = frozenset(
    {
        names.DELAY_LEVEL,
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
    }
)


def deliver_at_ms(properties: bytes) -> int | None:
    """When its sender wants it delivered, never too early; None: at once."""
    wanted = names.number_of(names.value_of(properties, _DELIVER))
    if wanted is None:
        return None
    nanos = names.value_of(properties, _NANOS)
    return wanted + (nanos not in (None, "", "0"))


def check_time(properties: bytes) -> None:
    """Raises `IllegalDeliveryTime` for what is no time. One before 1970 is one."""
    text = names.value_of(properties, _DELIVER)
    if text and names.number_of(text.removeprefix("-")) is None:
        raise IllegalDeliveryTime(reason=f"{text[:30]!r} is no number of milliseconds")


def parked(properties: bytes, topic: str, queue_id: int, due_ms: int) -> bytes:
    """The property string of the parked record. Raises `PropertiesTooLarge`."""
    more = {
        names.TIMER_OUT_MS: str(due_ms),
        names.REAL_TOPIC: topic,
        names.REAL_QUEUE_ID: str(queue_id),
    }
    whole = timer_bytes.parked(properties, names.encode(more))
    if whole is not None and len(whole) <= names.PROPERTIES_BYTES_MAX:
        return whole
    return names.encode({**names.decode(properties), **more})


def delivered(named: Mapping[str, str], of: str) -> bytes:
    """The properties of a parked record in its real topic; `of`: which record that ends."""
    kept = {name: value for name, value in named.items() if name not in _DELAYS}
    kept[names.TIMER_OF] = of
    return names.encode(kept)


def rolled(named: Mapping[str, str], of: str) -> bytes:
    """Of a parked record that is written again. Raises `PropertiesTooLarge`."""
    times = names.number_of(named.get(names.TIMER_ROLL_TIMES)) or 0
    more = {names.TIMER_ROLL_TIMES: str(times + 1), names.TIMER_OF: of}
    return names.encode({**named, **more})


def mark(topic: str, message_id: str, due_ms: int, queue_id: int, of: str) -> bytes:
    """Of the mark that ends `of` before its time."""
    return names.encode(
        {
            names.TIMER_DEL_KEY: f"{topic}+{message_id}",
            names.UNIQ_KEY: message_id,
            names.DELIVER_MS: str(due_ms),
            names.TAGS: RECALL_TAG,
            names.TIMER_OUT_MS: str(due_ms),
            names.REAL_TOPIC: topic,
            names.REAL_QUEUE_ID: str(queue_id),
            names.TIMER_OF: of,
        }
    )


def real_place(named: Mapping[str, str]) -> tuple[str, int] | None:
    """(topic, queue id) that a parked record goes to; None: it is no such record."""
    topic = named.get(names.REAL_TOPIC)
    queue_id = names.number_of(named.get(names.REAL_QUEUE_ID))
    return None if not topic or queue_id is None else (topic, queue_id)


def entry_of(named: Mapping[str, str], offset: int) -> WheelEntry | None:
    """A parked record's place in the wheel; None: it is none."""
    due_ms = names.number_of(named.get(names.TIMER_OUT_MS))
    topic = named.get(names.REAL_TOPIC)
    if due_ms is None or not topic or topic.startswith(REVIVE_PREFIX):
        return None  # RocketMQ's leases wait there too: engine/startup/parked_leases.py
    key = named.get(names.TIMER_DEL_KEY)
    if key is not None:
        if "+" not in key:  # RocketMQ 5.1 and before: the message id alone
            key = f"{topic}+{key}"
        return WheelEntry(due_ms, offset, _code(key) | MARK)
    return WheelEntry(due_ms, offset, code_of(topic, named.get(names.UNIQ_KEY, "")))


def entry_in(properties: bytes, offset: int) -> WheelEntry | None:
    """The same of a property string."""
    end = timer_bytes.end_of(properties)
    if end is None:
        return entry_of(names.decode(properties), offset)
    return WheelEntry(end.due_ms, offset, end.code)


def done_by_rocketmq(record: Record, timer_topic: str) -> WheelEntry | None:
    """What its timer has dealt with: `record` was delivered, or written again for a later turn.
    The entry's offset is where the parked record must lie before."""
    if record.properties.find(_DEQUEUED) < 0 and record.topic != timer_topic:
        return None
    named = names.decode(record.properties)
    due_ms, topic = names.number_of(named.get(names.TIMER_OUT_MS)), named.get(names.REAL_TOPIC)
    if due_ms is None or not topic or names.TIMER_OF in named:
        return None
    again = record.topic == timer_topic
    if again and not named.get(names.TIMER_ROLL_TIMES):
        return None
    before = record.queue_offset if again else _EVERY
    return WheelEntry(due_ms, before, code_of(topic, named.get(names.UNIQ_KEY, "")))


def code_of(topic: str, message_id: str) -> int:
    return _code(f"{topic}+{message_id}")


def _code(key: str) -> int:
    return crc32(key.encode()) & (MARK - 1)


class TimerRecord(NamedTuple):
    """A parked record, and its properties by name."""

    record: Record
    named: Mapping[str, str]

    @property
    def message_id(self) -> str:
        return self.named.get(names.UNIQ_KEY, "")


def parked_as(record: Record, entry: WheelEntry, topic: str) -> TimerRecord | None:
    """The record, if it is what the entry was made of; None: another has taken its place."""
    if record.topic != topic or record.queue_offset != entry.offset:
        return None
    named = names.decode(record.properties)
    return TimerRecord(record, named) if entry_of(named, entry.offset) == entry else None


def ended_by(properties: bytes) -> str | None:
    """What this record puts an end to, as `ends` and `level_end` read it; None: nothing."""
    return names.value_of(properties, _OF)


def is_over(entry: WheelEntry, now_ms: int) -> bool:
    """The mark of a recall is needed no more: its message would have come by now."""
    return bool(entry.code & MARK) and entry.due_ms <= now_ms


def may_end(properties: bytes) -> bool:
    """False: `ended_by` has nothing. Quicker."""
    return _OF in properties


def ends(of: str) -> list[int]:
    """Queue offsets of parked records; empty for one of a level."""
    if "@" in of:
        return []
    return [offset for text in of.split(",") if (offset := names.number_of(text)) is not None]


def level_end(of: str) -> tuple[int, int] | None:
    """(level, offset in its queue) of a record that had waited there."""
    level, at, offset = of.partition("@")
    first, second = names.number_of(level), names.number_of(offset)
    return None if not at or first is None or second is None else (first, second)
