"""Index files: RocketMQ's bytes, what is found by them, and when they are saved."""

import asyncio
from pathlib import Path

import pytest
from harness.indexed import FOLDER, NOW_MS, SIZES, contents, expected, find, keyed, some
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Told, opened, put, running

from popmq_broker.core.store import index as layout
from popmq_broker.core.store.index import Sizes
from popmq_broker.store.index import index as index_module
from popmq_broker.store.index import index_kept
from popmq_common.errors import IndexBehind
from popmq_common.records.record import SysFlag


async def test_a_vector_by_hand() -> None:
    """One message with id m and key k of topic t at offset 0: every byte as RocketMQ has it."""
    disk, sizes = MemoryFiles(), Sizes(slots=2, entries=4)
    async with running(disk, index=sizes) as store:
        await put(store, keyed("m", "k", topic="t"), now_ms=NOW_MS)
    (content,) = contents(disk)
    m, k = 116 * 31**2 + 35 * 31 + 109, 116 * 31**2 + 35 * 31 + 107  # t#m, t#k
    assert (m % 2, k % 2) == (0, 0)
    assert content.hex() == (
        f"{NOW_MS:016x}{NOW_MS:016x}{0:016x}{0:016x}{1:08x}{3:08x}"
        f"{2:08x}{0:08x}"
        f"{0:040x}"
        f"{m:08x}{0:016x}{0:08x}{0:08x}"
        f"{k:08x}{0:016x}{0:08x}{1:08x}"
        f"{0:040x}"
    )
    assert disk.paths(FOLDER)[0].name == "20231114221320000"


async def test_files_are_what_rocketmq_writes() -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        await some(store)
        await put(store, keyed("", "  a  b "), keyed("ümlaut", "日本 k0"), keyed(), now_ms=NOW_MS)
        await put(store, keyed("gone", sys_flag=int(SysFlag.ROLLBACK)), keyed("half", sys_flag=4))
        await put(store, keyed("x" * 300, "y"))
        log_files = expected(store)
    assert contents(disk) == log_files
    assert len(log_files) == 4


async def test_a_message_is_found_by_each_of_its_keys() -> None:
    async with running(MemoryFiles(), index=SIZES) as store:
        offsets = await some(store)
        assert [await find(store, f"id-{i}") for i in range(10)] == [[at] for at in offsets]
        assert await find(store, "k1") == [offsets[7], offsets[4], offsets[1]]
        assert await find(store, "k1", topic="bills") == []
        assert await find(store, "nothing") == []


async def test_only_of_the_time_that_is_asked_for() -> None:
    async with running(MemoryFiles(), index=SIZES) as store:
        offsets = await some(store)
        late = await find(store, "k1", begin_ms=NOW_MS + 4_000)
        assert late == [offsets[7], offsets[4]]
        early = await find(store, "k1", end_ms=NOW_MS + 4_000)
        assert early[-2:] == [offsets[4], offsets[1]]


async def test_a_clean_start_reads_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        await some(store)
        before = expected(store)
    told = Told()
    async with running(disk, index=SIZES, told=told) as store:
        assert store.index is not None
        assert store.index.behind_bytes == 0
        assert len(await find(store, "k1")) == 3
    assert "index.rebuilt" not in told.events
    assert contents(disk) == before


async def test_other_sizes_make_it_again() -> None:
    disk, other = MemoryFiles(), Sizes(slots=9, entries=30)
    async with running(disk, index=SIZES) as store:
        await some(store)
    async with running(disk, index=other) as store:
        assert len(await find(store, "k0")) == 4
        before = expected(store, other)
    assert contents(disk) == before


async def test_turned_off_and_on_again() -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        await some(store)
    async with running(disk) as store:
        assert store.index is None
        await some(store, start=10)
    async with running(disk, index=SIZES) as store:
        assert len(await find(store, "k0")) == 7
        before = expected(store)
    assert contents(disk) == before


async def test_the_log_of_a_server_without_an_index() -> None:
    disk = MemoryFiles()
    async with running(disk) as store:
        await some(store, 40)
    async with running(disk, index=SIZES) as store:
        assert len(await find(store, "k0")) == 14
        before = expected(store)
    assert contents(disk) == before


async def test_what_is_too_much_to_keep_is_read_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_kept, "KEPT_BYTES_MAX", 500)
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        for i in range(20):
            await put(store, *[keyed(f"id-{i}-{j}") for j in range(i)], keyed("all"))
        assert len(await find(store, "all")) == 20
        before = expected(store)
    assert contents(disk) == before


async def test_a_full_disk_leaves_it_behind_and_sends_go_on() -> None:
    disk, told = MemoryFiles(), Told()
    async with running(disk, index=SIZES, told=told, segment_bytes=1 << 14) as store:
        await some(store, 3)
        assert store.index is not None
        await store.index.caught_up()
        real, disk.capacity_bytes = disk.capacity_bytes, disk.used_bytes
        assert not await store.index.save()
        disk.capacity_bytes = real
        store.index._full_disk = True
        await some(store, 10, start=3)
        with pytest.raises(IndexBehind, match="catches up by itself"):
            await find(store, "k0")
        await store.checkpoint()
        assert len(await find(store, "k0")) == 5
        before = expected(store)
    assert "index.postponed" in told.events
    assert contents(disk) == before


async def test_saves_come_before_a_crash_could_cost_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_module, "UNSAVED_ENTRIES_MAX", 8)
    disk, sizes = MemoryFiles(), Sizes(slots=5, entries=1000)
    async with running(disk, index=sizes) as store:
        await some(store, 50)
        assert len(await find(store, "k0")) == 17
        assert store.index is not None
        assert store.index._files[-1].unsaved_count < 8
        before = expected(store, sizes)
    assert contents(disk) == before


async def test_files_before_the_log_are_removed_but_the_newest() -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        offsets = await some(store)
        assert store.index is not None
        await store.index.caught_up()
        assert await store.index.save()
        assert store.index.drop_before(offsets[2]) == 0
        assert store.index.drop_before(offsets[4]) == 1
        assert await find(store, "id-0") == []
        assert await find(store, "id-9") == [offsets[9]]
        assert store.index.drop_before(1 << 40) == 1
        assert await find(store, "id-9") == [offsets[9]]
    assert len(disk.paths(FOLDER)) == 1


async def test_the_checkpoint_tells_how_far_full_files_are_on_disk() -> None:
    """RocketMQ's indexMsgTimestamp: what ends later it makes again after a crash."""
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        await some(store)
    page = disk.read(ROOT / "checkpoint") or b""
    assert int.from_bytes(page[16:24]) == NOW_MS + 6_000  # 7 keys a file: the second ends there


async def test_a_closed_store_has_all_of_it_on_disk() -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        await some(store)
        before = expected(store)
    disk.crash()
    assert contents(disk) == before


def test_the_default_sizes_are_rocketmqs() -> None:
    assert Sizes().file_bytes == 40 + 5_000_000 * 4 + 20_000_000 * 20


async def test_foreign_names_are_left_alone(tmp_path: Path) -> None:
    disk = MemoryFiles()
    disk.make_folder(FOLDER)
    disk.replace(FOLDER / "notes.txt", b"mine")
    async with running(disk, index=SIZES) as store:
        await some(store)
        await find(store, "k0")
    assert disk.read(FOLDER / "notes.txt") == b"mine"


async def test_searches_and_sends_at_a_time() -> None:
    async with running(MemoryFiles(), index=SIZES) as store:

        async def search() -> None:
            for i in range(30):
                assert len(await find(store, "k0")) >= min(i, 1)
                await asyncio.sleep(0)

        await some(store, 1)
        await asyncio.gather(search(), some(store, 30, start=1), search())
        assert len(await find(store, "k0")) == 11


async def test_an_abandoned_store_leaves_no_turn_behind() -> None:
    disk = MemoryFiles()
    store = await opened(disk, index=SIZES)
    store.append([keyed("a")], NOW_MS)
    await asyncio.sleep(0)
    store.abandon()
    await asyncio.sleep(0)


@pytest.mark.parametrize("key", ["01AB", "ab", "é123", ""])
@pytest.mark.parametrize("more", ["", "KEYS\x01one two\x02", "colour\x01blue\x02"])
@pytest.mark.parametrize("id_first", [True, False])
def test_the_quick_way_to_a_messages_keys_finds_the_same(
    key: str, more: str, id_first: bool
) -> None:
    """Twice: the second time the beginnings of keys are known."""
    named = f"UNIQ_KEY\x01{key}\x02"
    properties = (named + more if id_first else more + named).encode()
    hashes = layout.KeyHashes()
    expected = [(hashes.of("orders", found), 7) for found in layout.keys_of(properties)]
    for _ in range(2):
        keyed: list[tuple[int, int]] = []
        hashes.put_into(keyed, "orders", properties, 7)
        assert keyed == expected
