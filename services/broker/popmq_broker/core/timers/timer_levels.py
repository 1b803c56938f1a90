"""RocketMQ's delay levels: a message waits in `SCHEDULE_TOPIC_XXXX`, queue level − 1.

All of a queue wait equally long, so they are due in order, and one offset per level tells how far
delivery is. The queue's entries hold the time in place of the tag's code: store time + delay.

    config/delayOffset.json      {"offsetTable": {level: next offset}, "dataVersion": …}

That file is RocketMQ's and for RocketMQ. Ours are the snapshot (core/timers/timer_snapshot.py) and
the log: a delivered message says "LEVEL@OFFSET" in `__TIMER_OF`.

Source: RocketMQ ScheduleMessageService, DelayOffsetSerializeWrapper.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from popmq_broker.core.store.queue_entry import tags_code_of
from popmq_common.errors import BadRequest, Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import LEVELS_TOPIC
from popmq_common.records.record import Record

RETRY_FIRST: Final = 3
"""Level of the first retry of a classic consumer; each further one is one higher."""
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = f"{names.DELAY_LEVEL}{names.NAME_END}".encode()


def parse(text: str) -> tuple[int, ...]:
    """Delays in milliseconds, level 1 first. Raises `BadRequest`."""
    delays = []
    for word in text.split():
        number, unit = word[:-1], word[-1:]
        if unit not in _UNITS_MS or not (number.isascii() and number.isdigit()):
            raise BadRequest(reason=f"{word!r} is no delay, like 5s, 10m, 2h or 1d")
        delays.append(int(number) * _UNITS_MS[unit])
    return tuple(delays)


def level_of(properties: bytes, delays_ms: tuple[int, ...]) -> int:
    """The level that a record asks for; 0: none. What is above the last one is the last one."""
    level = names.number_of(names.value_of(properties, _LEVEL)) or 0
    return min(level, len(delays_ms))


def entry_code(record: Record, delays_ms: tuple[int, ...]) -> int:
    """What a record's queue entry holds as the tag's code: of a delay level, when it is due."""
    level = level_of(record.properties, delays_ms) if record.topic == LEVELS_TOPIC else 0
    if level:
        return record.store_timestamp_ms + delays_ms[level - 1]
    return tags_code_of(record.properties)


def encode_offsets(offsets: Mapping[int, int], counter: int, now_ms: int) -> str:
    version = {"counter": counter, "stateVersion": 0, "timestamp": now_ms}
    table = {str(level): offset for level, offset in sorted(offsets.items())}
    return json.dumps({"dataVersion": version, "offsetTable": table})


_BARE_KEY: Final = re.compile(r"([{,]\s*)(\d+)(\s*:)")
"""RocketMQ writes numbers for keys without quotes."""


def decode_offsets(text: str, *, where: str) -> dict[int, int]:
    """Next offset by level. Raises `Corrupt` naming `where`."""
    try:
        table = json.loads(_BARE_KEY.sub(r'\1"\2"\3', text))["offsetTable"]
        return {int(level): int(offset) for level, offset in table.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no table of offsets: {wrong!r}") from wrong
