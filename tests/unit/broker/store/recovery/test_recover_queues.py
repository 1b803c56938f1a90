"""Starts with queue files that are not what was written: they are made again from the log."""

import asyncio
from unittest.mock import patch

import pytest
from harness.memory_files import MemoryFiles
from harness.store import (
    ROOT,
    SEGMENT_BYTES,
    Told,
    crash,
    draft,
    filled,
    messages,
    opened,
    put,
    running,
)

from popmq_broker.core.store.queue_entry import pack
from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.segments import name
from popmq_common.errors import Corrupt, StoreClosed
from popmq_common.records.record import Record, encode
from popmq_common.units import QueueOffset

LOG = ROOT / "commitlog"
QUEUE = ROOT / "consumequeue" / "orders" / "0"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
async def bodies(disk: MemoryFiles) -> list[bytes]:
    return await filled(disk)


async def rebuilt(disk: MemoryFiles, bodies: list[bytes], reason: str) -> None:
    """The start says so, and afterwards all is as before."""
    told = Told()
    store = await opened(disk, told=told)
    (line,) = [line for line in told.lines if line["event"] == "queues.rebuilt"]
    assert reason in line["reason"]
    assert messages(store) == bodies
    crash(store, disk, disk.crash)  # nothing of it was synced yet
    async with running(disk) as store:
        assert messages(store) == bodies
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store) == bodies
    assert told.events == ["store.recovered"]


async def test_all_files_are_gone(disk: MemoryFiles, bodies: list[bytes]) -> None:
    for path in disk.paths(ROOT / "consumequeue"):
        disk.lose(path)
    await rebuilt(disk, bodies, "is missing")


async def test_the_last_file_is_gone(disk: MemoryFiles, bodies: list[bytes]) -> None:
    disk.lose(disk.paths(QUEUE)[-1])
    await rebuilt(disk, bodies, "file 160 is missing")


async def test_a_file_in_the_middle_is_gone(disk: MemoryFiles, bodies: list[bytes]) -> None:
    disk.lose(disk.paths(QUEUE)[1])
    await rebuilt(disk, bodies, "is missing")


async def test_a_file_is_short(disk: MemoryFiles, bodies: list[bytes]) -> None:
    disk.shorten(disk.paths(QUEUE)[0], 60)
    await rebuilt(disk, bodies, "has 60 bytes, not 80")


async def test_the_end_is_lost(disk: MemoryFiles, bodies: list[bytes]) -> None:
    disk.damage(disk.paths(QUEUE)[-1], 40, bytes(40))
    await rebuilt(disk, bodies, "damaged at offset 11: the entry was lost")


async def test_the_last_entry_points_elsewhere(disk: MemoryFiles, bodies: list[bytes]) -> None:
    disk.damage(disk.paths(QUEUE)[-1], 60, pack(150, 150, 0))
    await rebuilt(disk, bodies, "is damaged at offset")


async def test_the_last_entry_is_of_another_message(disk: MemoryFiles, bodies: list[bytes]) -> None:
    first = (disk.read(disk.paths(QUEUE)[0]) or b"")[:20]
    disk.damage(disk.paths(QUEUE)[-1], 60, first)
    await rebuilt(disk, bodies, "its last entry 11 is of another message")


async def test_files_of_another_size(disk: MemoryFiles, bodies: list[bytes]) -> None:
    async with running(disk, queue_file_bytes=200) as store:
        assert messages(store) == bodies


async def test_entries_ahead_of_the_log_are_dropped(disk: MemoryFiles) -> None:
    """With async flush a queue may reach the disk before its records do."""
    store = await opened(disk, sync_flush=False)
    store.append([draft(b"a")], NOW_MS)
    await asyncio.sleep(0)
    assert messages(store) == [b"a"]
    with patch.object(store, "_on_disk", side_effect=StoreClosed()), pytest.raises(StoreClosed):
        await store.checkpoint()
    assert disk.exists(QUEUE / name(0))
    crash(store, disk, disk.crash)
    told = Told()
    async with running(disk, told=told) as store:
        assert told.events == ["store.recovered"]
        assert messages(store) == []
        assert await put(store, draft(b"b")) == [0]
        assert messages(store) == [b"b"]


async def test_with_async_flush_a_checkpoint_waits_for_the_log(disk: MemoryFiles) -> None:
    store = await opened(disk, sync_flush=False)
    store.append([draft(b"a")], NOW_MS)
    await asyncio.sleep(0)
    store.append([draft(b"b")], NOW_MS)  # not visible yet, so not in it
    await store.checkpoint()
    crash(store, disk, disk.crash)
    async with running(disk) as store:
        assert messages(store)[:1] == [b"a"]


async def test_a_rebuild_that_is_cut_off_begins_again(
    disk: MemoryFiles, bodies: list[bytes]
) -> None:
    disk.lose(disk.paths(QUEUE)[1])

    class Cut(BaseException):
        pass

    def code_of(record: Record) -> int:
        raise Cut

    with pytest.raises(Cut):
        await opened(disk, code_of=code_of)
    marks = checkpoint_file.load(disk, ROOT / "checkpoint")
    assert marks is not None
    assert marks.queues_end == 0 < marks.log_end
    disk.kill()
    async with running(disk) as store:
        assert messages(store) == bodies


async def test_a_log_with_a_gap_in_a_queue_is_refused(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    start = store.log_end
    (at,) = store.append([draft(b"b")], NOW_MS)
    await store.durable(at.end_offset)
    record = store.read(start, at.end_offset - start)
    assert record is not None
    await store.close()
    other = encode(record._replace(queue_offset=QueueOffset(5)))
    disk.damage(LOG / name(0), start, other)
    with pytest.raises(Corrupt, match="entries from 1 on are missing"):
        await opened(disk)


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_a_topic_that_rocketmq_deleted_and_made_again_begins_anew(
    disk: MemoryFiles, count: int
) -> None:
    """It counts such a topic's messages from 0 again, and leaves the old ones in the log."""
    store = await opened(disk)
    await put(store, *(draft(b"old %d" % i) for i in range(5)))
    for i in range(count):
        (at,) = store.append([draft(b"new %d" % i)], NOW_MS)
        await store.durable(at.end_offset)
        start = at.log_offset
        record = store.read(start, at.end_offset - start)
        assert record is not None
        again = encode(record._replace(queue_offset=QueueOffset(i)))
        disk.damage(LOG / name(start - start % SEGMENT_BYTES), start % SEGMENT_BYTES, again)
    await store.close()
    disk.remove(ROOT / "checkpoint")
    async with running(disk) as store:
        assert messages(store) == [b"new %d" % i for i in range(count)]
        assert await put(store, draft(b"next")) == [count]
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store)[-1] == b"next"
    assert told.events == ["store.recovered"], "the old ones are no lost entries"
