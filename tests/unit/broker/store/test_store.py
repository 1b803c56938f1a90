"""The store from outside: append, durable, visible, read, restart, two processes."""

import asyncio
import errno
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from harness.memory_files import Inode, MemoryFiles
from harness.store import ROOT, SMALL, draft, messages, opened, put, running

from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.queues.drafts import Appended, Run
from popmq_broker.store.store import Store
from popmq_common.errors import (
    BadRequest,
    Corrupt,
    DirectoryInUse,
    DiskFull,
    StoreClosed,
    TooManyRequests,
)
from popmq_common.records.record import SysFlag

NOW_MS = 1_700_000_000_000


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


async def test_offsets_are_dense_per_queue(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        drafts = [draft(queue_id=0), draft(queue_id=1), draft(queue_id=0), draft(topic="bills")]
        first = store.append(drafts, NOW_MS)
        assert [at.queue_offset for at in first] == [0, 0, 1, 0]
        assert await put(store, draft(queue_id=0)) == [2]
        assert first[0].log_offset == 0
        assert first[1].log_offset == first[0].end_offset
        assert store.topics() == {"bills", "orders"}


async def test_an_unknown_queue_is_empty_and_stays_unknown(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        assert (store.min_offset("none", 3), store.max_offset("none", 3)) == (0, 0)
        assert store.entries("none", 3, 0, 10) == []
        assert store.topics() == set()


async def test_a_message_is_visible_only_when_it_is_on_disk(disk: MemoryFiles) -> None:
    arrived: list[Run] = []
    async with running(disk) as store:
        store.arrivals = arrived.extend
        with disk.held_syncs():
            (at,) = store.append([draft(b"a", tag="red")], NOW_MS)
            waiting = asyncio.ensure_future(store.durable(at.end_offset))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert store.max_offset("orders", 0) == 0
            assert store.entries("orders", 0, 0, 1) == []
            assert not waiting.done()
            assert store.log_end == at.end_offset > store.durable_end
        await waiting
        (run,) = arrived
        assert (run.queue, run.first_offset) == (("orders", 0), 0)
        assert run.tags_codes == [tags_code("red")]
        assert messages(store) == [b"a"]
        assert store.durable_end == at.end_offset


async def test_what_came_during_an_fdatasync_waits_for_the_next() -> None:
    class Gated(MemoryFiles):
        def __init__(self) -> None:
            super().__init__()
            self.gate: threading.Semaphore | None = None
            self.reached = threading.Semaphore(0)

        def fdatasync(self, inode: Inode, life: int) -> None:
            self.reached.release()
            assert self.gate is None or self.gate.acquire(timeout=10)
            super().fdatasync(inode, life)

    disk = Gated()
    async with running(disk) as store:
        gate, disk.reached = threading.Semaphore(0), threading.Semaphore(0)
        disk.gate = gate
        (first,) = store.append([draft(b"a")], NOW_MS)
        waiting = asyncio.ensure_future(store.durable(first.end_offset))
        await asyncio.to_thread(disk.reached.acquire)
        (second,) = store.append([draft(b"b")], NOW_MS)
        gate.release()
        await waiting
        assert messages(store) == [b"a"]
        assert store.durable_end == first.end_offset
        gate.release()
        await store.durable(second.end_offset)
        assert messages(store) == [b"a", b"b"]
        disk.gate = None


async def test_appends_that_wait_share_one_fdatasync(disk: MemoryFiles) -> None:
    batches: list[int] = []
    async with running(disk) as store:
        store.synced = lambda seconds, records: batches.append(records)
        with disk.held_syncs():
            await_first = asyncio.ensure_future(put(store, draft()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            others = [asyncio.ensure_future(put(store, draft())) for _ in range(10)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(await_first, *others)
        assert sum(batches) == 11
        assert len(batches) <= 3


async def test_async_flush_answers_and_shows_at_once(disk: MemoryFiles) -> None:
    async with running(disk, sync_flush=False) as store:
        with disk.held_syncs():
            (at,) = store.append([draft(b"a")], NOW_MS)
            await store.durable(at.end_offset)
            await asyncio.sleep(0)
            assert messages(store) == [b"a"]
            assert store.durable_end == 0
    async with running(disk) as store:
        assert messages(store) == [b"a"]


def store_time_ms(store: Store, at: Appended) -> int:
    found = store.read(at.log_offset, at.end_offset - at.log_offset)
    assert found is not None
    return found.store_timestamp_ms


async def test_store_times_never_go_back_not_even_over_a_restart(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        (first,) = store.append([draft()], NOW_MS)
        (second,) = store.append([draft()], NOW_MS - 500)
        await store.durable(second.end_offset)
        assert store_time_ms(store, first) == store_time_ms(store, second) == NOW_MS
    async with running(disk) as store:
        (third,) = store.append([draft()], NOW_MS - 900)
        await store.durable(third.end_offset)
        assert store_time_ms(store, third) == NOW_MS


async def test_a_restart_keeps_messages_and_offsets(disk: MemoryFiles) -> None:
    bodies = [b"m%d" % i for i in range(40)]  # many segments and queue files
    async with running(disk) as store:
        for body in bodies[:20]:
            await put(store, draft(body, queue_id=1))
        end = store.log_end
    async with running(disk) as store:
        assert store.log_end == store.durable_end == end
        assert messages(store, queue_id=1) == bodies[:20]
        for offset, body in enumerate(bodies[20:], 20):
            assert await put(store, draft(body, queue_id=1)) == [offset]
        assert messages(store, queue_id=1) == bodies


async def test_half_messages_are_in_the_log_but_in_no_queue(disk: MemoryFiles) -> None:
    half = draft(b"half", sys_flag=SysFlag.PREPARED.value)
    async with running(disk) as store:
        appended = store.append([half, draft(b"a")], NOW_MS)
        await store.durable(appended[-1].end_offset)
        assert [at.queue_offset for at in appended] == [0, 0]
        assert messages(store) == [b"a"]
        record = store.read(0, appended[0].end_offset)
        assert record is not None
        assert record.body == b"half"
    disk.damage(ROOT / "checkpoint", 0, bytes(4096))
    async with running(disk) as store:  # also when the queues are made from the log
        assert messages(store) == [b"a"]


async def test_reading_beside_a_record_is_told(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        (at,) = store.append([draft()], NOW_MS)
        await store.durable(at.end_offset)
        with pytest.raises(Corrupt, match="no record begins here"):
            store.read(1, at.end_offset - 1)
        with pytest.raises(Corrupt):
            store.read(at.end_offset, 100)


async def test_a_record_that_no_file_can_hold_is_refused(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        await put(store, draft(b"a"))
        with pytest.raises(BadRequest, match="segment_bytes=1024"):
            store.append([draft(b"b"), draft(b"x" * 1_000)], NOW_MS)
        assert await put(store, draft(b"c")) == [1]
        assert messages(store) == [b"a", b"c"]


async def test_what_waits_for_the_disk_is_bounded(disk: MemoryFiles) -> None:
    async with running(disk, unsynced_bytes_max=200) as store:
        with disk.held_syncs():
            store.append([draft(b"a" * 200)], NOW_MS)
            with pytest.raises(TooManyRequests):
                store.append([draft(b"b")], NOW_MS)
            (last,) = store.append([draft(b"c")], NOW_MS, system=True)
        await store.durable(last.end_offset)
        assert await put(store, draft(b"d")) == [2]


async def test_a_closed_store_takes_nothing(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        store.append([draft()], NOW_MS)


async def test_what_a_closed_store_held_is_not_taken_for_damaged(disk: MemoryFiles) -> None:
    """A call that still runs when its broker has gone must not report it, nor write it down in a
    directory that is another store's by now."""
    async with running(disk) as store:
        await put(store, draft())
        (entry,) = store.entries("orders", 0, 0, 1)
    with pytest.raises(StoreClosed):
        store.read(entry.log_offset, entry.size_bytes)
    with pytest.raises(StoreClosed):
        await store.save_config("damage.json", "{}")


async def test_closing_brings_to_disk_what_nobody_waited_for(disk: MemoryFiles) -> None:
    store = await opened(disk)
    store.append([draft(b"a")], NOW_MS)
    await store.close()
    disk.crash()
    async with running(disk) as store:
        assert messages(store) == [b"a"]


async def test_abort_is_there_while_it_runs(disk: MemoryFiles) -> None:
    async with running(disk):
        assert disk.read(ROOT / "abort") == b"%d\n" % os.getpid()
    assert not disk.exists(ROOT / "abort")


async def test_checkpoints_are_made_beside(disk: MemoryFiles) -> None:
    """After one of them, a start has nothing to read again."""
    looked = asyncio.Event()

    class Watched(MemoryFiles):
        def sync(self, path: Path) -> None:
            super().sync(path)
            loop.call_soon_threadsafe(looked.set)

    loop = asyncio.get_running_loop()
    disk = Watched()
    store = await opened(disk, checkpoint_interval_ms=1)
    await put(store, draft(b"a"))
    beside = asyncio.ensure_future(store.run())
    async with asyncio.timeout(5):
        await looked.wait()
    beside.cancel()
    await asyncio.gather(beside, return_exceptions=True)
    assert disk.size(ROOT / "consumequeue" / "orders" / "0" / ("0" * 20)) == 80
    await store.close()


class TestRealFiles:
    @pytest.fixture
    def config(self, tmp_path: Path) -> StoreConfig:
        return replace(SMALL, data_dir=tmp_path / "data" / "deep")

    async def test_the_same_on_a_real_disk(self, config: StoreConfig) -> None:
        bodies = [b"m%d" % i * 20 for i in range(30)]
        async with running(OsFiles(), config=config) as store:
            for body in bodies:
                await put(store, draft(body))
            assert messages(store) == bodies
        store = await opened(OsFiles(), config)
        await put(store, draft(b"last"))
        store.abandon()  # as kill -9
        async with running(OsFiles(), config=config) as store:
            assert messages(store) == [*bodies, b"last"]
            assert (config.data_dir / "commitlog" / f"{1024:020d}").stat().st_size == 1024
            assert (config.data_dir / "lock").read_text() == f"{os.getpid()}\n"

    async def test_a_real_disk_that_is_full(
        self, config: StoreConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_pwrite = os.pwrite

        def a_part_then_full(file: int, data: bytes, offset: int) -> int:
            if len(data) < 100:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real_pwrite(file, data[:99], offset)

        async with running(OsFiles(), config=config) as store:
            await put(store, draft(b"a"))
            with monkeypatch.context() as full:
                full.setattr(os, "pwrite", a_part_then_full)
                with pytest.raises(DiskFull, match="nothing was stored"):
                    store.append([draft(b"b"), draft(b"c")], NOW_MS)
            await put(store, draft(b"d"))
        async with running(OsFiles(), config=config) as store:
            assert messages(store) == [b"a", b"d"]

    async def test_a_second_process_is_told_who_has_the_directory(
        self, config: StoreConfig
    ) -> None:
        program = (
            "import sys, pathlib; from popmq_broker.store.files.files import OsFiles;"
            "OsFiles().lock(pathlib.Path(sys.argv[1]) / 'lock'); print('held', flush=True);"
            "sys.stdin.read()"
        )
        config.data_dir.mkdir(parents=True)
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(config.data_dir)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUse, match=f"process {other.pid}"):
            await opened(OsFiles(), config)
        await other.communicate(b"")  # its input ends
        async with running(OsFiles(), config=config) as store:
            assert await put(store, draft()) == [0]

    async def test_two_stores_of_one_process_exclude_each_other(self, config: StoreConfig) -> None:
        async with running(OsFiles(), config=config):
            with pytest.raises(DirectoryInUse):
                await opened(OsFiles(), config)
