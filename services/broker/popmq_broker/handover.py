"""What `popmq store handover` does: RocketMQ is told what waits for its time.

RocketMQ does not read `__TIMER_OF`. Without a note of its own it takes everything that the timer
topic holds for waiting, and delivers again what was delivered or recalled long ago. So before it
gets a directory, its note is written anew (core/timers/rocketmq_timer.py): what waits, and up to
where the topic was looked through. Leases that its timer held are none of that: they are in the
revive topic.
"""

from collections.abc import Iterator
from pathlib import Path

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.timers.rocketmq_timer import Waiting
from popmq_broker.core.timers.timer_wheel import GONE, MARK
from popmq_broker.engine.broker import Broker
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.offline.timer_note import remove_note, write_note
from popmq_common.process.clock import Clock
from popmq_common.records.names import TIMER_TOPIC


async def hand_over(config: BrokerConfig, clock: Clock) -> int:
    """Returns how many messages wait. Raises as `open_engine`."""
    broker = await open_engine(config, clock)
    try:
        return _write(broker, OsFiles(), config.data_dir)
    finally:
        await broker.close()


def _write(broker: Broker, files: OsFiles, data_dir: Path) -> int:
    file_bytes = remove_note(files, data_dir)
    store = broker.state.runtime.store
    end = store.max_offset(TIMER_TOPIC, 0)
    newest = store.entries(TIMER_TOPIC, 0, end - 1, 1) if end else []
    if not newest:
        return 0
    now_ms = broker.state.runtime.clock.now_ms()
    last = Waiting(0, newest[0].log_offset, newest[0].size_bytes)
    waiting = list(_waiting(broker))
    write_note(files, data_dir, waiting, last, now_ms=now_ms, end=end, file_bytes=file_bytes)
    return len(waiting)


def _waiting(broker: Broker) -> Iterator[Waiting]:
    """In the order of the timer topic, as RocketMQ's log is; marks of recalls are not needed."""
    store = broker.state.runtime.store
    due_by_offset = {
        bucket.offsets[i]: bucket.start_ms + bucket.dues[i]
        for bucket in broker.timers.wheel.buckets()
        for i in range(bucket.at, len(bucket.offsets))
        if bucket.offsets[i] != GONE and not bucket.codes[i] & MARK
    }
    for offset in sorted(due_by_offset):
        for entry in store.entries(TIMER_TOPIC, 0, offset, 1):
            yield Waiting(due_by_offset[offset], entry.log_offset, entry.size_bytes)
