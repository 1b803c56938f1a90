"""Index files: RocketMQ's bytes, and what becomes of files that are not what was written."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from harness import index_oracle as oracle
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Told, draft, opened, put, running

from popmq_broker.core import index as layout
from popmq_broker.core.index import Sizes
from popmq_broker.store import index as index_module
from popmq_broker.store import index_kept
from popmq_broker.store.commit_log import ScanEnd
from popmq_broker.store.drafts import Draft
from popmq_broker.store.store import Store
from popmq_common import properties as names
from popmq_common.errors import Corrupt, IndexBehind, IndexDamaged
from popmq_common.record import SysFlag

SIZES = Sizes(slots=5, entries=8)
FOLDER = ROOT / "index"
NOW_MS = 1_700_000_000_000


def keyed(message_id: str = "", keys: str = "", **more: Any) -> Draft:
    properties = {"UNIQ_KEY": message_id} if message_id else {}
    if keys:
        properties["KEYS"] = keys
    return draft(b"b", properties=names.encode(properties), **more)


def contents(disk: MemoryFiles) -> list[bytes]:
    return [disk.read(path) or b"" for path in disk.paths(FOLDER)]


def expected(store: Store, sizes: Sizes = SIZES) -> list[bytes]:
    """By the log alone."""
    found = []
    for record, _ in store._commit_log.scan(store.log_start, ScanEnd(0)):
        if record.sys_flag & SysFlag.ROLLBACK == SysFlag.ROLLBACK:
            continue
        properties = names.decode(record.properties)
        keys = [properties[name] for name in ("UNIQ_KEY",) if name in properties]
        keys += [word for word in properties.get("KEYS", "").split(" ") if word]
        for key in keys:
            at, ms = record.log_offset, record.store_timestamp_ms
            found.append(oracle.Keyed(record.topic, key, at, ms))
    return oracle.files(found, sizes.slots, sizes.entries)


async def caught_up(store: Store) -> None:
    assert store.index is not None
    await store.index.caught_up()
    await store.index.save()


async def find(store: Store, key: str, topic: str = "orders", **times: int) -> list[int]:
    assert store.index is not None
    await store.index.caught_up()
    found = store.index.candidates(
        topic, key, times.get("begin_ms", 0), times.get("end_ms", 1 << 62)
    )
    return [at for at in found if at is not None]


async def some(store: Store, count: int = 10, start: int = 0) -> list[int]:
    """Messages of two keys each, a second apart; their log offsets."""
    offsets = []
    for i in range(start, start + count):
        (at,) = store.append([keyed(f"id-{i}", f"k{i % 3}")], NOW_MS + 1000 * i)
        await store.durable(at.end_offset)
        offsets.append(at.log_offset)
    return offsets


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


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_lost_file_is_made_again(which: int) -> None:
    disk = MemoryFiles()
    async with running(disk, index=SIZES) as store:
        offsets = await some(store)
        before = expected(store)
    disk.lose(disk.paths(FOLDER)[which])
    async with running(disk, index=SIZES) as store:
        assert await find(store, "k0") == [offsets[i] for i in (9, 6, 3, 0)]
    assert contents(disk) == before


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("at", "data"), [(16, b"\0\0\1"), (24, b"\1"), (36, b"\xff\xff"), (37, b"\1")]
)
async def test_a_damaged_header_is_seen_at_the_start(which: int, at: int, data: bytes) -> None:
    disk, told = MemoryFiles(), Told()
    async with running(disk, index=SIZES) as store:
        await some(store)
        before = expected(store)
    disk.damage(disk.paths(FOLDER)[which], at, data)
    async with running(disk, index=SIZES, told=told) as store:
        assert len(await find(store, "k0")) == 4
    assert "index.rebuilt" in told.events
    assert contents(disk) == before


async def test_a_damaged_entry_is_seen_by_the_search_that_meets_it() -> None:
    disk, told = MemoryFiles(), Told()
    async with running(disk, index=SIZES) as store:
        await some(store)
        before = expected(store)
    disk.damage(disk.paths(FOLDER)[0], SIZES.entry_at(2) + 10, b"\x7f")  # its log offset
    async with running(disk, index=SIZES, told=told) as store:
        with pytest.raises(IndexDamaged, match="is being made again"):
            await asyncio.gather(*(find(store, f"k{i}") for i in range(3)))
        assert len(await find(store, "k0")) == 4
    assert told.events.count("index.rebuilt") == 1
    assert contents(disk) == before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("slot", range(5))
@pytest.mark.parametrize("number", [-1, 8, 9, 1 << 20])
async def test_a_damaged_slot_is_seen_and_sends_go_on(clean: bool, slot: int, number: int) -> None:
    """It names an entry that cannot be there. After a crash those of the last entries are made
    again whatever they say."""
    disk, told = MemoryFiles(), Told()
    store = await opened(disk, index=SIZES)
    await some(store)
    await caught_up(store)
    if clean:
        await store.close()
    else:
        disk.kill()
        store.abandon()
    newest = disk.paths(FOLDER)[-1]
    disk.damage(newest, layout.HEADER_BYTES + 4 * slot, number.to_bytes(4, signed=True))
    async with running(disk, index=SIZES, told=told) as store:
        await some(store, 1, start=10)
        for key in [f"id-{i}" for i in range(11)]:
            with contextlib.suppress(IndexDamaged):
                await find(store, key)
        assert len(await find(store, "k0")) == 4
        assert len(await find(store, "id-10")) == 1
        files = expected(store)
    assert "index.rebuilt" in told.events or not clean
    assert contents(disk) == files


async def test_an_entry_of_another_slot_is_seen() -> None:
    """A flipped bit of a hash, or of a number in a chain, nearly always leads to one."""
    disk, told = MemoryFiles(), Told()
    async with running(disk, index=SIZES) as store:
        await some(store)
    at = SIZES.entry_at(1) + 3
    disk.damage(disk.paths(FOLDER)[0], at, bytes([contents(disk)[0][at] ^ 1]))
    async with running(disk, index=SIZES, told=told) as store:
        with pytest.raises(IndexDamaged, match="is being made again"):
            await find(store, "id-0")
        assert len(await find(store, "id-0")) == 1
    assert "is of another slot" in told.lines[-1]["reason"]


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


async def test_a_damaged_log_is_told_by_the_search() -> None:
    disk, told = MemoryFiles(), Told()
    async with running(disk) as store:
        offsets = await some(store, 10)
    disk.damage(ROOT / "commitlog" / f"{0:020d}", offsets[2] + 90, b"\xff\xff")
    async with running(disk, index=SIZES, told=told) as store:
        with pytest.raises(Corrupt, match=f"offset {offsets[2]}"):
            await find(store, "k0")
        await some(store, 2, start=10)  # sends go on
    assert "index.stopped" in told.events


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


@pytest.mark.parametrize("lost", ["slots", "header"])
async def test_a_crash_in_the_middle_of_a_save(lost: str) -> None:
    """Of what a save writes last, slots and header, the disk has one and not the other."""
    disk, sizes, told = MemoryFiles(), Sizes(slots=5, entries=1000), Told()
    store = await opened(disk, index=sizes)
    assert store.index is not None
    offsets = await some(store, 5)
    await store.index.caught_up()
    await store.index.save()
    (path,) = disk.paths(FOLDER)
    before = (disk.read(path) or b"")[:60]
    offsets += await some(store, 5, start=5)
    await store.index.caught_up()
    await store.index.save()
    disk.kill()
    store.abandon()
    if lost == "slots":
        disk.damage(path, 40, before[40:])
    else:
        disk.damage(path, 0, before[:40])
    async with running(disk, index=sizes, told=told) as store:
        assert [await find(store, f"id-{i}") for i in range(10)] == [[at] for at in offsets]
        assert await find(store, "k1") == [offsets[i] for i in (7, 4, 1)]
        expected_now = expected(store, sizes)
    assert "index.rebuilt" not in told.events
    assert contents(disk) == expected_now


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
