"""RocketMQ's timer log as RocketMQ reads it at a start, by its TimerMessageStore and TimerLog."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

UNIT_BYTES = 52
BLANK = struct.pack(">I", 0xCBD43194)


class Unit(NamedTuple):
    place: int
    before: int
    rolls: bool
    second_ms: int
    log_offset: int
    size_bytes: int


def units(files: Sequence[bytes], file_bytes: int) -> list[Unit]:
    """In order, up to where no unit begins. A file ends with a blank piece of 16 bytes or more."""
    found: list[Unit] = []
    for number, data in enumerate(files):
        data = data.ljust(file_bytes, b"\0")
        assert len(data) == file_bytes, "RocketMQ does not start on a file of another size"
        at = 0
        while at + 16 <= file_bytes and data[at + 12 : at + 16] != BLANK:
            if struct.unpack_from(">i", data, at) != (UNIT_BYTES,):
                return found
            _, before, magic, written_ms, delay_ms, log_offset, size_bytes, _, _ = (
                struct.unpack_from(">iqiqiqiiq", data, at)
            )
            assert magic in (1, 3), magic
            second_ms, place = written_ms + delay_ms, number * file_bytes + at
            found.append(Unit(place, before, magic == 3, second_ms, log_offset, size_bytes))
            at += UNIT_BYTES
        assert data[at + 12 : at + 16] == BLANK
    return found


def delivered_from(read: Sequence[Unit], read_ms: int) -> dict[int, list[Unit]]:
    """By second from `read_ms` on: what the wheel leads to, oldest first."""
    by_place = {unit.place: unit for unit in read}
    newest = {unit.second_ms // 1_000 * 1_000: unit for unit in read}
    found = {}
    for second_ms, unit in sorted(newest.items()):
        if second_ms >= read_ms:
            chain = [unit]
            while chain[-1].before != -1:
                chain.append(by_place[chain[-1].before])
            found[second_ms] = chain[::-1]
    return found
