"""What RocketMQ would have written into index files, computed in the plainest way.

Written from the description of the format alone; nothing of the server's code is used.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple


class Keyed(NamedTuple):
    """One key of one record."""

    topic: str
    key: str
    log_offset: int
    store_ms: int


def java_hash(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be")
    for i in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[i : i + 2])) % 2**32
    return value


def key_hash(topic: str, key: str) -> int:
    value = java_hash(f"{topic}#{key}")
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == -(2**31) else abs(signed)


def files(keys: Iterable[Keyed], slots: int, entries: int) -> list[bytes]:
    """The content of each file, in order."""
    done, current, before_ms = [], None, 0
    for one in keys:
        if current is None or current.next == entries:
            if current is not None:
                done.append(current.content())
            current = _File(slots, entries, before_ms)
        current.put(one)
        before_ms = one.store_ms
    return [*done, current.content()] if current else done


class _File:
    def __init__(self, slots: int, entries: int, begin_ms: int) -> None:
        """`begin_ms`: RocketMQ gives a new file the end of the one before, and its first entry is
        written before that is corrected."""
        self.begin_ms = begin_ms
        self.slots = [0] * slots
        self.rows: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)] * entries
        self.next = 1
        self.used = 0
        self.first: Keyed | None = None
        self.last: Keyed | None = None

    def put(self, one: Keyed) -> None:
        self.last = one
        number = key_hash(one.topic, one.key)
        at = number % len(self.slots)
        seconds = max(0, (one.store_ms - self.begin_ms) // 1000) if self.begin_ms else 0
        if self.first is None:
            self.first, self.begin_ms = one, one.store_ms
        self.used += self.slots[at] == 0
        self.rows[self.next] = (number, one.log_offset, seconds, self.slots[at])
        self.slots[at] = self.next
        self.next += 1

    def content(self) -> bytes:
        assert self.first is not None
        assert self.last is not None
        head = struct.pack(
            ">qqqqii",
            self.first.store_ms,
            self.last.store_ms,
            self.first.log_offset,
            self.last.log_offset,
            self.used,
            self.next,
        )
        slots = b"".join(struct.pack(">i", slot) for slot in self.slots)
        return head + slots + b"".join(struct.pack(">iqii", *row) for row in self.rows)
