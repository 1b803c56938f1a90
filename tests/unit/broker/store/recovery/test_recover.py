"""Starts after every kind of stop: what is kept, cut off, made again, or refused."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles
from harness.store import (
    HALF,
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

from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.files.segments import name
from popmq_broker.store.store import Draft, Store
from popmq_common.errors import Corrupt

LOG = ROOT / "commitlog"
QUEUE = ROOT / "consumequeue" / "orders" / "0"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


def unsynced(store: Store, *drafts: Draft) -> int:
    """Append without waiting; where the last record begins."""
    return store.append(drafts, NOW_MS)[-1].log_offset


def forget_marks(disk: MemoryFiles) -> None:
    """As if RocketMQ had written the directory."""
    disk.damage(ROOT / "checkpoint", 64, bytes(40))


async def test_an_empty_directory(disk: MemoryFiles) -> None:
    told = Told()
    async with running(disk, told=told) as store:
        assert (store.log_start, store.log_end) == (0, 0)
    assert [(line["event"], line["clean"]) for line in told.lines] == [("store.recovered", True)]


async def test_a_clean_stop_leaves_nothing_to_repair(disk: MemoryFiles) -> None:
    bodies = await filled(disk)
    before = {path: disk.read(path) for path in disk.paths(ROOT)}
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store) == bodies
    assert told.events == ["store.recovered"]
    assert {path: disk.read(path) for path in disk.paths(ROOT)} == before


async def test_a_killed_process_loses_nothing_that_was_written(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    unsynced(store, draft(b"b"))
    crash(store, disk, disk.kill)
    told = Told()
    store = await opened(disk, told=told)
    assert [(line["event"], line["clean"]) for line in told.lines] == [("store.recovered", False)]
    assert messages(store) == [b"a", b"b"]
    crash(store, disk, disk.crash)  # what the start made visible, it made durable
    async with running(disk) as store:
        assert messages(store) == [b"a", b"b"]


async def test_a_record_torn_at_every_byte(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    start = store.log_end
    (last,) = store.append([draft(b"torn", tag="red")], NOW_MS)
    crash(store, disk, disk.kill)
    segment = disk.read(LOG / name(0))
    assert segment is not None
    for end in range(start, last.end_offset):
        torn = MemoryFiles()
        for folder in (LOG, ROOT):
            torn.make_folder(folder)
        torn.replace(LOG / name(0), segment[:end].ljust(SEGMENT_BYTES, b"\0"))
        for other in ("checkpoint", "abort"):
            torn.replace(ROOT / other, disk.read(ROOT / other) or b"")
        told = Told()
        store = await opened(torn, told=told)
        assert messages(store) == [b"a"]
        assert store.log_end == start
        assert await put(store, draft(b"b")) == [1]
        await store.close()
        cuts = [line for line in told.lines if line["event"] == "log.truncated"]
        assert [(line["path"], line["offset"]) for line in cuts] == (
            [(str(LOG / name(0)), start)] if segment[start:end].strip(b"\0") else []
        )
        async with running(torn) as store:
            assert messages(store) == [b"a", b"b"]


async def test_a_hole_behind_the_mark_ends_the_log(disk: MemoryFiles) -> None:
    """What lies behind it was never answered, however whole it is."""
    store = await opened(disk)
    await put(store, draft(b"a"))
    hole = unsynced(store, draft(b"b"))
    for _ in range(12):
        unsynced(store, draft(b"c" * 100))
    crash(store, disk, disk.kill)
    disk.damage(LOG / name(0), hole, bytes(100))
    told = Told()
    store = await opened(disk, told=told)
    assert [(line["event"], line.get("offset")) for line in told.lines] == [
        ("log.truncated", hole),
        ("store.recovered", None),
    ]
    assert disk.names(LOG) == [name(0)]
    assert messages(store) == [b"a"]
    await store.close()


async def test_the_first_half_of_a_pair_goes_too(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    pair = [draft(b"copy", properties=HALF), draft(b"ack", topic="acks")]
    copy, ack = store.append(pair, NOW_MS)
    half = copy.log_offset
    crash(store, disk, disk.kill)
    disk.damage(LOG / name(0), ack.log_offset, bytes(100))
    told = Told()
    store = await opened(disk, told=told)
    assert ("log.truncated", half) in [(line["event"], line.get("offset")) for line in told.lines]
    assert messages(store) == [b"a"]
    assert store.max_offset("acks", 0) == 0
    assert await put(store, draft(b"b")) == [1]
    await store.close()


async def test_a_whole_pair_stays(disk: MemoryFiles) -> None:
    store = await opened(disk)
    unsynced(store, draft(b"copy", properties=HALF), draft(b"ack", topic="acks"))
    crash(store, disk, disk.kill)
    async with running(disk) as store:
        assert messages(store) == [b"copy"]
        assert messages(store, "acks") == [b"ack"]


async def test_half_a_pair_of_somebody_else_stays(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        await put(store, draft(b"copy", properties=HALF))
    forget_marks(disk)
    async with running(disk) as store:
        assert messages(store) == [b"copy"]


async def filled_behind_a_checkpoint(disk: MemoryFiles) -> None:
    """Eight messages of which the queues' checkpoint knows two, and the mark all; then a crash."""
    store = await opened(disk)
    for i in range(8):
        await put(store, draft(b"%03d" % i + b"x" * 50))
        if i == 1:
            await store.checkpoint()
    await store._mark(0, 0)
    crash(store, disk, disk.kill)


class TestDamageBelowTheMark:
    @pytest.mark.parametrize("where", [0, 30, 90, 93])
    async def test_in_the_scanned_part(self, disk: MemoryFiles, where: int) -> None:
        await filled_behind_a_checkpoint(disk)
        disk.damage(LOG / name(1024), where, b"\x7f\x7f\x7f")
        before = {path: disk.read(path) for path in disk.paths(LOG)}
        with pytest.raises(Corrupt, match=rf"{name(1024)} is damaged at offset 1024: .* disk up"):
            await opened(disk)
        assert {path: disk.read(path) for path in disk.paths(LOG)} == before
        with pytest.raises(Corrupt):  # and again: the lock was given back, nothing was changed
            await opened(disk)

    async def test_the_last_file_is_gone(self, disk: MemoryFiles) -> None:
        await filled(disk)
        disk.lose(disk.paths(LOG)[-1])
        with pytest.raises(Corrupt, match="the log was on disk up to"):
            await opened(disk)

    async def test_a_file_in_the_middle_is_gone(self, disk: MemoryFiles) -> None:
        await filled(disk, 20)
        disk.lose(LOG / name(1024))
        with pytest.raises(Corrupt, match=rf"{name(1024)} is damaged .* before 2048 is missing"):
            await opened(disk)

    async def test_all_are_gone(self, disk: MemoryFiles) -> None:
        await filled(disk)
        for path in disk.paths(LOG):
            disk.lose(path)
        with pytest.raises(Corrupt, match="at offset 0: the log was on disk up to"):
            await opened(disk)

    async def test_another_segment_size(self, disk: MemoryFiles) -> None:
        await filled(disk)
        with pytest.raises(Corrupt, match="has 1024 bytes, not the 512 of segment_bytes"):
            await opened(disk, segment_bytes=512)
        with pytest.raises(Corrupt, match="has 1024 bytes, not the 2048 of segment_bytes"):
            await opened(disk, segment_bytes=2048)

    async def test_a_short_file(self, disk: MemoryFiles) -> None:
        await filled(disk)
        disk.shorten(LOG / name(0), 1000)
        with pytest.raises(Corrupt, match=f"{name(0)} .* has 1000 bytes"):
            await opened(disk)


class TestWithoutMarks:
    """A directory of RocketMQ's, or the checkpoint is gone: the whole log is read."""

    async def test_everything_is_found_again(self, disk: MemoryFiles) -> None:
        bodies = await filled(disk, 20)
        forget_marks(disk)
        for path in disk.paths(ROOT / "consumequeue"):
            disk.lose(path)
        async with running(disk) as store:
            assert messages(store) == bodies

    async def test_damage_with_records_behind_it_is_refused(self, disk: MemoryFiles) -> None:
        await filled(disk, 20)
        forget_marks(disk)
        disk.damage(LOG / name(0), 95, b"?")
        with pytest.raises(Corrupt, match=r"at offset 0: .* but a record follows at \d+"):
            await opened(disk)

    async def test_damage_at_the_end_is_cut_off(self, disk: MemoryFiles) -> None:
        bodies = await filled(disk, 20)
        forget_marks(disk)
        last = disk.paths(LOG)[-1]
        data = disk.read(last)
        assert data is not None
        disk.damage(last, data.rindex(bodies[-1]), b"?")
        told = Told()
        store = await opened(disk, told=told)
        assert "log.truncated" in told.events
        assert messages(store) == bodies[:-1]
        await store.close()

    async def test_an_old_log_begins_where_retention_left_it(self, disk: MemoryFiles) -> None:
        bodies = await filled(disk, 20)
        forget_marks(disk)
        disk.lose(LOG / name(0))
        for path in disk.paths(ROOT / "consumequeue"):
            disk.lose(path)
        async with running(disk) as store:
            assert store.log_start == 1024
            low = store.min_offset("orders", 0)
            assert 0 < low < 20
            assert messages(store) == bodies[low:]
            assert store.read(0, 100) is None
            assert await put(store, draft()) == [20]
        async with running(disk) as store:
            assert store.min_offset("orders", 0) == low
            assert messages(store)[:-1] == bodies[low:]


async def test_the_lock_is_given_back_when_a_start_fails(disk: MemoryFiles) -> None:
    await filled_behind_a_checkpoint(disk)
    disk.damage(LOG / name(1024), 0, b"??")
    for _ in range(2):
        with pytest.raises(Corrupt):
            await opened(disk)


async def test_real_files_are_recovered_the_same(tmp_path: Path) -> None:
    root = tmp_path / "data"
    store = await opened(OsFiles(), data_dir=root)
    await put(store, draft(b"a"))
    end = store.log_end
    store.abandon()
    segment = OsFiles().open(root / "commitlog" / name(0))
    segment.pwrite(b"torn", end)
    segment.close()
    told = Told()
    store = await opened(OsFiles(), data_dir=root, told=told)
    assert ("log.truncated", end) in [(line["event"], line.get("offset")) for line in told.lines]
    assert messages(store) == [b"a"]
    await store.close()
    assert (root / "commitlog" / name(0)).read_bytes()[end:].strip(b"\0") == b""
