"""The store on a disk that is full, or fails."""

import asyncio
import errno

import pytest
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Fatal, crash, draft, messages, opened, put, running

from popmq_common.errors import DiskFull, StoreClosed

NOW_MS = 1_700_000_000_000


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


class TestFullDisk:
    async def test_nothing_is_stored_and_later_there_is_space(self, disk: MemoryFiles) -> None:
        async with running(disk) as store:
            await put(store, draft(b"a"))
            before = store.log_end
            disk.capacity_bytes = disk.used_bytes + 150
            with pytest.raises(DiskFull):
                store.append([draft(b"b" * 60), draft(b"c" * 60)], NOW_MS)
            assert store.log_end == before
            disk.capacity_bytes = 1 << 30
            assert await put(store, draft(b"d")) == [1]
            assert messages(store) == [b"a", b"d"]

    async def test_no_part_of_it_comes_back_after_a_crash(self, disk: MemoryFiles) -> None:
        store = await opened(disk)
        await put(store, draft(b"a"))
        disk.capacity_bytes = disk.used_bytes + 250
        with pytest.raises(DiskFull):
            store.append([draft(b"b" * 60), draft(b"c" * 60)], NOW_MS)
        crash(store, disk, disk.kill)
        disk.capacity_bytes = 1 << 30
        async with running(disk) as store:
            assert messages(store) == [b"a"]

    async def test_also_over_the_end_of_a_file(self, disk: MemoryFiles) -> None:
        async with running(disk) as store:
            await put(store, draft(b"a" * 700))
            before = store.log_end
            disk.capacity_bytes = disk.used_bytes + 300
            with pytest.raises(DiskFull):
                store.append([draft(b"b" * 60), draft(b"c" * 300)], NOW_MS)
            assert store.log_end == before
            assert [path.name for path in disk.paths(ROOT / "commitlog")] == ["0" * 20]
            disk.capacity_bytes = 1 << 30
            assert await put(store, draft(b"d" * 300)) == [1]
            assert messages(store) == [b"a" * 700, b"d" * 300]

    async def test_the_reserve_is_for_leases_and_acks(self, disk: MemoryFiles) -> None:
        async with running(disk, disk_reserve_bytes=10_000) as store:
            await put(store, draft(b"a"))
            disk.capacity_bytes = disk.used_bytes + 10_000
            await put(store, draft(b"b"), now_ms=NOW_MS + 999)  # looked at once a second
            with pytest.raises(DiskFull):
                store.append([draft(b"c")], NOW_MS + 1_000)
            (at,) = store.append([draft(b"d")], NOW_MS + 1_000, system=True)
            await store.durable(at.end_offset)
            disk.capacity_bytes = 1 << 30
            await put(store, draft(b"e"), now_ms=NOW_MS + 2_000)
            assert messages(store) == [b"a", b"b", b"d", b"e"]

    async def test_queues_wait_in_memory_up_to_a_bound(self, disk: MemoryFiles) -> None:
        async with running(disk, unwritten_entry_bytes_max=40) as store:
            await put(store, draft(b"a"), draft(b"b"), draft(b"c"))
            disk.capacity_bytes = disk.used_bytes
            assert not await store.checkpoint()
            assert messages(store) == [b"a", b"b", b"c"]
            disk.capacity_bytes = 1 << 30
            with pytest.raises(DiskFull):
                store.append([draft(b"d")], NOW_MS, system=True)
            assert await store.checkpoint()
            assert await put(store, draft(b"d")) == [3]


class TestFailedDisk:
    async def test_a_failed_fdatasync_ends_it(self, disk: MemoryFiles) -> None:
        fatal = Fatal()
        store = await opened(disk, fatal=fatal)
        disk.sync_error = OSError(errno.EIO, "bad sector")
        (at,) = store.append([draft()], NOW_MS)
        with pytest.raises(StoreClosed):
            await store.durable(at.end_offset)
        assert fatal.errors == [disk.sync_error]
        assert store.max_offset("orders", 0) == 0
        with pytest.raises(StoreClosed):
            store.append([draft()], NOW_MS)
        with pytest.raises(StoreClosed):
            await store.durable(at.end_offset)
        store.abandon()

    async def test_a_failed_write_ends_it(self, disk: MemoryFiles) -> None:
        fatal = Fatal()
        store = await opened(disk, fatal=fatal)
        disk.write_error = OSError(errno.EIO, "bad sector")
        with pytest.raises(StoreClosed):
            store.append([draft()], NOW_MS)
        assert fatal.errors == [disk.write_error]
        store.abandon()

    async def test_an_error_while_telling_of_arrivals_ends_it(self, disk: MemoryFiles) -> None:
        fatal = Fatal()
        store = await opened(disk, fatal=fatal)
        store.arrivals = lambda arrivals: 1 / 0  # type: ignore[assignment]
        (at,) = store.append([draft()], NOW_MS)
        with pytest.raises(StoreClosed):
            await store.durable(at.end_offset)
        assert [type(error) for error in fatal.errors] == [ZeroDivisionError]
        store.abandon()

    async def test_an_fdatasync_that_hangs_ends_it(self, disk: MemoryFiles) -> None:
        ended = asyncio.Event()
        store = await opened(
            disk,
            fatal=lambda failed: ended.set(),
            sync_seconds_max=0.01,
            checkpoint_interval_ms=1,
        )
        running_beside = asyncio.ensure_future(store.run())
        with disk.held_syncs():
            store.append([draft()], NOW_MS)
            async with asyncio.timeout(5):
                await ended.wait()
        running_beside.cancel()
        await asyncio.gather(running_beside, return_exceptions=True)
        store.abandon()
