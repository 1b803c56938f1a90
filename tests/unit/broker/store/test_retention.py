"""Files that retention deletes, in any state a crash can leave them in."""

import asyncio
import errno
from random import Random

import pytest
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Fatal, Told, crash, draft, filled, messages, opened, put, running

from popmq_broker.store.store import Store
from popmq_common.errors import StoreClosed

NOW_MS = 1_700_000_000_000
FIVE = 5
"""Messages of `filled` in a file of the log."""


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


async def delete_oldest(store: Store) -> None:
    assert await store.checkpoint()
    oldest = store.look_at_oldest()
    assert oldest is not None
    assert oldest.whole
    store.oldest.forget(await store.oldest.new_minimums(oldest.end))
    await store.remove_forgotten()


def names(disk: MemoryFiles, folder: str) -> list[int]:
    return [int(path.name) for path in disk.paths(ROOT / folder)]


async def test_the_queue_begins_in_the_middle_of_a_file(disk: MemoryFiles) -> None:
    bodies = await filled(disk)
    async with running(disk) as store:
        await delete_oldest(store)
        assert (store.log_start, store.min_offset("orders", 0)) == (1024, FIVE)
        assert messages(store) == bodies[FIVE:]
        assert store.entries("orders", 0, FIVE - 1, 3) == []
        assert store.read(0, 171) is None
        assert store.read_bytes(0, 171) is None
        assert names(disk, "commitlog") == [1024, 2048]
        assert names(disk, "consumequeue") == [80, 160]  # four entries each; the sixth is needed
    async with running(disk) as store:
        assert messages(store) == bodies[FIVE:]
        assert await put(store, draft(b"next")) == [12]


async def test_the_last_file_stays_and_what_is_not_in_the_queues_on_disk(
    disk: MemoryFiles,
) -> None:
    async with running(disk) as store:
        assert store.look_at_oldest() is None
        for _ in range(2 * FIVE + 1):
            await put(store, draft(b"x" * 53))
        oldest = store.look_at_oldest()
        assert oldest is not None
        assert not oldest.whole  # no checkpoint yet
        await delete_oldest(store)
        await delete_oldest(store)
        assert store.look_at_oldest() is None
        assert len(messages(store)) == 1


@pytest.mark.parametrize("count", [3, 4])
async def test_a_queue_without_messages_goes_on_counting(disk: MemoryFiles, count: int) -> None:
    """Min and max are equal, and not 0; also when queues are rebuilt. A file holds four entries."""
    async with running(disk) as store:
        await put(store, *(draft(b"", topic="quiet") for _ in range(count)))
        for _ in range(2 * FIVE):
            await put(store, draft(b"x" * 53))
        await delete_oldest(store)
        assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (count, count)
    async with running(disk) as store:
        assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (count, count)
    disk.lose(disk.paths(ROOT / "consumequeue" / "orders")[-1])
    told = Told()
    async with running(disk, told=told) as store:
        assert "queues.rebuilt" in told.events
        assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (count, count)
    async with running(disk, told=(told := Told())) as store:
        assert "queues.rebuilt" not in told.events
        assert await put(store, draft(b"new", topic="quiet")) == [count]
        assert messages(store, "quiet") == [b"new"]


async def test_a_rebuild_that_is_cut_off_loses_no_offset(disk: MemoryFiles) -> None:
    """A queue without messages is known by no record of the log."""
    for at in range(100):
        disk = MemoryFiles()
        async with running(disk) as store:
            await put(store, draft(b"", topic="quiet"))
            for _ in range(2 * FIVE):
                await put(store, draft(b"x" * 53))
            await delete_oldest(store)
            left = messages(store)
        disk.lose(disk.paths(ROOT / "consumequeue" / "orders")[-1])
        count = 0

        def fail(method: str, at: int = at) -> None:
            nonlocal count
            count += 1
            if count > at:
                raise OSError(errno.EIO, "the power is gone")

        disk.trouble = fail
        try:
            store = await opened(disk, fatal=Fatal())
        except (OSError, StoreClosed):
            disk.crash(Random(at))
            ended = False
        else:
            ended = True
            crash(store, disk, lambda disk=disk: disk.crash(Random(1)))  # type: ignore[misc]
        disk.trouble = lambda _: None
        async with running(disk) as store:
            assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (1, 1), at
            assert messages(store) == left
        if ended:
            return
    raise AssertionError("more calls than expected")


async def test_the_age_is_that_of_the_newest_record(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        for i in range(2 * FIVE):
            await put(store, draft(b"\xda\xa3\x20\xa7" * 13), now_ms=NOW_MS + i)
        oldest = store.look_at_oldest()
        assert oldest is not None
        in_file = oldest.end // (store.log_end // (2 * FIVE)) - 1
        assert NOW_MS + in_file - 1 <= oldest.newest_ms <= NOW_MS + in_file
        assert store.oldest.oldest_ms() == NOW_MS
        last = store._commit_log.last_record(oldest.end)
        assert last is not None
        entry = store.entries("orders", 0, last.queue_offset + 1, 1)[0]
        assert entry.log_offset == oldest.end


async def test_a_crash_at_any_call_is_repaired_by_the_next_start(disk: MemoryFiles) -> None:
    calls = 40
    for at in range(calls):
        for seed in range(3):
            disk = MemoryFiles()
            bodies = await filled(disk, 17)
            store = await opened(disk, fatal=Fatal())
            assert await store.checkpoint()
            count = 0

            def fail(method: str, disk: MemoryFiles = disk, at: int = at) -> None:
                nonlocal count
                count += 1
                if count > at:
                    raise OSError(errno.EIO, "the power is gone")

            disk.trouble = fail
            try:
                await delete_oldest(store)
                await delete_oldest(store)
            except StoreClosed:
                pass
            calls_made, disk.trouble = count, lambda _: None
            crash(store, disk, lambda disk=disk, seed=seed: disk.crash(Random(seed)))  # type: ignore[misc]
            told = Told()
            async with running(disk, told=told) as store:
                start = store.min_offset("orders", 0)
                assert start in (0, FIVE, 2 * FIVE)
                assert messages(store) == bodies[start:]
                assert await put(store, draft(b"next")) == [17]
                assert "queues.rebuilt" not in told.events
        if calls_made <= at:
            return
    raise AssertionError("more calls than expected")


async def test_a_file_that_cannot_be_removed_ends_it(disk: MemoryFiles) -> None:
    await filled(disk)
    fatal = Fatal()
    store = await opened(disk, fatal=fatal)

    def fail(method: str) -> None:
        if method == "remove":
            raise OSError(errno.EIO, "bad sector")

    disk.trouble = fail
    with pytest.raises(StoreClosed):
        await delete_oldest(store)
    assert [type(error) for error in fatal.errors] == [OSError]
    store.abandon()


async def test_a_queue_that_was_forgotten_begins_at_its_floor(disk: MemoryFiles) -> None:
    async with running(disk) as store:
        await put(store, draft(b"a", topic="gone"), draft(b"b", topic="gone"))
        for _ in range(2 * FIVE):
            await put(store, draft(b"x" * 53))
        floors = {"gone": {0: 2}}
        store.oldest.begin_at(floors)
        assert not store.oldest.forget_topic("gone", [0])  # it still holds something
        await delete_oldest(store)
        assert store.oldest.forget_topic("gone", [0])
        assert not store.oldest.forget_topic("gone", [0])
        await store.remove_forgotten()
        assert "gone" not in store.topics()
        assert disk.paths(ROOT / "consumequeue" / "gone") == []
        assert store.min_offset("gone", 0) == store.max_offset("gone", 0) == 2
    store = await opened(disk)
    store.oldest.begin_at(floors)
    assert await put(store, draft(b"again", topic="gone")) == [2]
    crash(store, disk, disk.crash)
    async with running(disk) as store:
        assert (store.min_offset("gone", 0), messages(store, "gone")) == (2, [b"again"])


async def test_reads_go_on_while_a_file_goes(disk: MemoryFiles) -> None:
    bodies = await filled(disk)
    async with running(disk) as store:
        assert await store.checkpoint()
        oldest = store.look_at_oldest()
        assert oldest is not None
        entries = store.entries("orders", 0, 0, 6)
        store.oldest.forget(await store.oldest.new_minimums(oldest.end))
        found = [store.read(entry.log_offset, entry.size_bytes) for entry in entries]
        assert [record and record.body for record in found] == [None] * FIVE + [bodies[FIVE]]
        removal = asyncio.ensure_future(store.remove_forgotten())
        assert messages(store) == bodies[FIVE:]
        await removal
        assert messages(store) == bodies[FIVE:]
