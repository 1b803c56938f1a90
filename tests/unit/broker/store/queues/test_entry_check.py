"""Damaged entries in the middle of a queue: in their place is one that says so."""

import asyncio

import pytest
from harness.memory_files import MemoryFiles
from harness.store import ROOT, draft, filled, messages, put, running

from popmq_broker.core.store.queue_entry import (
    DAMAGED,
    ENTRY_BYTES,
    decode_all,
    encode,
    pack,
    tags_code,
)
from popmq_broker.store.files.segments import name
from popmq_broker.store.queues.entry_check import code_of_tag
from popmq_broker.store.store import Store
from popmq_common.errors import Corrupt
from popmq_common.records.record import Record

QUEUE = ROOT / "consumequeue" / "orders" / "0"


@pytest.fixture
async def disk() -> MemoryFiles:
    """Twelve messages, red and green in turn, in a store that was stopped."""
    disk = MemoryFiles()
    async with running(disk) as store:
        for i in range(12):
            await put(store, draft(b"%d" % i, tag=("red", "green")[i % 2]))
    return disk


def replace_entry(disk: MemoryFiles, offset: int, entry: bytes) -> None:
    base, at = divmod(offset * ENTRY_BYTES, 80)
    disk.damage(QUEUE / name(base * 80), at, entry)


def read(store: Store, start: int, count: int) -> list[bytes | None]:
    """Bodies; None in the place of one whose entry is not its own."""
    bodies: list[bytes | None] = []
    for entry in store.entries("orders", 0, start, count):
        if entry is DAMAGED:
            with pytest.raises(Corrupt, match="its entry there is not the one"):
                store.read(entry.log_offset, entry.size_bytes)
            bodies.append(None)
        else:
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            bodies.append(record.body)
    return bodies


async def test_a_flipped_tag_code_does_not_hide_a_message(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        (entry,) = store.entries("orders", 0, 5, 1)
    replace_entry(disk, 5, encode(entry._replace(tags_code=tags_code("red"))))
    async with running(disk) as store:
        assert read(store, 4, 2) == [b"4", None]


async def test_an_entry_of_another_message(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        (entry,) = store.entries("orders", 0, 7, 1)
    replace_entry(disk, 5, encode(entry))
    async with running(disk) as store:
        assert read(store, 5, 3) == [None, b"6", b"7"]


async def test_a_lost_entry(disk: MemoryFiles) -> None:
    replace_entry(disk, 5, bytes(20))
    async with running(disk) as store:
        assert read(store, 0, 12) == [None if i == 5 else b"%d" % i for i in range(12)]


async def test_an_entry_whose_record_cannot_be_read_is_for_the_reader(disk: MemoryFiles) -> None:
    replace_entry(disk, 5, pack(3, 100, 0))
    async with running(disk) as store:
        first, second = store.entries("orders", 0, 4, 2)
        assert store.read(first.log_offset, first.size_bytes) is not None
        with pytest.raises(Corrupt, match="at offset 3"):
            store.read(second.log_offset, second.size_bytes)


async def test_an_entry_before_the_log() -> None:
    disk = MemoryFiles()
    await filled(disk, 20)
    disk.lose(ROOT / "commitlog" / name(0))
    async with running(disk) as store:
        low = store.min_offset("orders", 0)
        assert low > 0
    replace_entry(disk, low + 2, pack(0, 100, 0))
    async with running(disk) as store:
        assert store.min_offset("orders", 0) == low
        assert read(store, low + 1, 3)[1] is None


async def test_what_this_process_has_written_is_not_looked_at_again(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        await put(store, draft(b"new"))
        await store.checkpoint()
        data = disk.read(QUEUE / name(240)) or b""
        assert decode_all(data[:20])
        disk.damage(QUEUE / name(240), 12, bytes(8))
        assert len(store.entries("orders", 0, 12, 1)) == 1
        await asyncio.sleep(0)
        assert len(messages(store)) == 13


async def test_entries_that_do_not_hold_the_tags_code(disk: MemoryFiles) -> None:
    """Delay levels keep the time there: whoever opens the store knows."""
    async with running(disk) as store:
        store.append([draft(b"later", topic="levels")._replace(tags_code=4711)], 1)
    async with running(disk) as store:
        assert store.entries("levels", 0, 0, 1) == [DAMAGED]

    def code_of(record: Record) -> int:
        return 4711 if record.topic == "levels" else code_of_tag(record)

    async with running(disk, code_of=code_of) as store:
        assert store.entries("levels", 0, 0, 1)[0].tags_code == 4711
        assert len(messages(store)) == 12
