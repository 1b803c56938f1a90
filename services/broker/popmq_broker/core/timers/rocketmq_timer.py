"""RocketMQ's own note of what waits for its time: `timerlog/` and `timercheck`. Big-endian.

    timerlog/00000000000000000000      units of 52 bytes, 16 bytes at the end of a file stay free
    0     i32   52
    4     i64   place of the unit before it in the same second, or −1
    12    i32   1, and 2 besides when it is to be written again instead of delivered
    16    i64   written_ms
    24    i32   second of delivery less written_ms, in milliseconds
    28    i64   log offset of the parked record
    36    i32   its size
    40    i32   hash of its topic, for figures; 0 here
    44    i64   0

    timercheck                         a page of 4,096 bytes
    0     i64   read_ms               all seconds before it are delivered
    8     i64   end of the timer log that is on disk
    16    i64   queue offset in the timer topic; all before it is in the timer log
    24    i64   the same, of the master

RocketMQ makes the wheel (`timerwheel`) from the log when there is none. It takes as the queue
offset the one behind the last unit's record; so the last unit must be of the queue's last record,
whatever has become of that: a unit of a second before read_ms is never looked at.

A second holds what is due within it and at its end, and is delivered when it is over. What is due
later than two days from now is written again in two.

Source: RocketMQ TimerLog, TimerCheckpoint, TimerMessageStore (doEnqueue, recover).
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

UNIT_BYTES: Final = 52
FILE_BYTES: Final = 100 << 20
"""RocketMQ's mappedFileSizeTimerLog, unless there is a file that says otherwise."""
FREE_BYTES: Final = 16
CHECK_NAME: Final = "timercheck"
"""In config/; a page of bytes among texts."""
CHECK_BYTES: Final = 4_096
SECOND_MS: Final = 1_000
WINDOW_MS: Final = 172_800 * SECOND_MS
"""RocketMQ's timerRollWindowSlot."""
_NONE: Final = -1
_DELIVER, _ROLL = 1, 3
_BLANK: Final = 0xCBD43194 - (1 << 32)
_UNIT = Struct(">iqiqiqiiq")
_FREE = Struct(">iqi")
_CHECK = Struct(">qqqqqqq")
assert _UNIT.size == UNIT_BYTES
assert _FREE.size == FREE_BYTES


class Waiting(NamedTuple):
    """A parked record."""

    due_ms: int
    log_offset: int
    size_bytes: int


def second_of(due_ms: int) -> int:
    """Of what is due then; RocketMQ's rule, so that a recall of its own finds it."""
    return (due_ms - 1) // SECOND_MS * SECOND_MS


def timer_log(
    waiting: Iterable[Waiting], last: Waiting, now_ms: int, file_bytes: int = FILE_BYTES
) -> list[bytes]:
    """The contents of its files, to be filled up with zeros. `last`: of the queue's last record,
    which need not wait any more."""
    read_ms = read_time(now_ms)
    newest: dict[int, int] = {}
    files: list[bytearray] = [bytearray()]
    for due_ms, log_offset, size_bytes in waiting:
        second_ms, kind = max(second_of(due_ms), read_ms), _DELIVER
        if second_ms - read_ms >= WINDOW_MS:
            second_ms, kind = read_ms + _window(second_ms - read_ms), _ROLL
        place = _room(files, file_bytes)
        before = newest.get(second_ms, _NONE)
        newest[second_ms] = place
        files[-1] += _unit(before, kind, read_ms, second_ms - read_ms, log_offset, size_bytes)
    _room(files, file_bytes)
    files[-1] += _unit(_NONE, _DELIVER, read_ms, -SECOND_MS, last.log_offset, last.size_bytes)
    return [bytes(file) for file in files]


def read_time(now_ms: int) -> int:
    """From which second on RocketMQ shall deliver."""
    return now_ms // SECOND_MS * SECOND_MS


def timer_check(now_ms: int, log_bytes: int, queue_offset: int) -> bytes:
    fields = (read_time(now_ms), log_bytes, queue_offset, queue_offset, 0, now_ms, 0)
    return _CHECK.pack(*fields).ljust(CHECK_BYTES, b"\0")


def _window(left_ms: int) -> int:
    """When it is written again; not so late that the next turn would be a short one."""
    short = left_ms - WINDOW_MS < WINDOW_MS // 3
    return WINDOW_MS // 2 if short else WINDOW_MS


def _room(files: list[bytearray], file_bytes: int) -> int:
    """Where the next unit lies."""
    used = len(files[-1])
    if used + UNIT_BYTES + FREE_BYTES > file_bytes:
        files[-1] += _FREE.pack(file_bytes - used, 0, _BLANK)
        files.append(bytearray())
    return (len(files) - 1) * file_bytes + len(files[-1])


def _unit(
    before: int, kind: int, written_ms: int, delay_ms: int, log_offset: int, size_bytes: int
) -> bytes:
    fields = (UNIT_BYTES, before, kind, written_ms, delay_ms, log_offset, size_bytes, 0, 0)
    return _UNIT.pack(*fields)
