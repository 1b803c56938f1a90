"""Index files that are lost, or not what was written: searches say so, and they are made again."""

import asyncio
import contextlib

import pytest
from harness.indexed import FOLDER, SIZES, contents, expected, find, save_index, some
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Told, opened, running

from popmq_broker.core.store import index as layout
from popmq_broker.core.store.index import Sizes
from popmq_common.errors import IndexDamaged


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
    await save_index(store)
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


async def test_a_damaged_record_is_passed_over_and_told() -> None:
    disk, told = MemoryFiles(), Told()
    async with running(disk) as store:
        offsets = await some(store, 10)
    disk.damage(ROOT / "commitlog" / f"{0:020d}", offsets[2] + 90, b"\xff\xff")
    async with running(disk, index=SIZES, told=told) as store:
        found = await find(store, "k0")
        assert found
        assert offsets[2] not in found
        assert await find(store, "id-9")
        await some(store, 2, start=10)  # sends go on
    assert told.events.count("index.passed_over") == 1


@pytest.mark.parametrize("lost", ["slots", "header"])
async def test_a_crash_in_the_middle_of_a_save(lost: str) -> None:
    """Of what a save writes last, slots and header, the disk has one and not the other."""
    disk, sizes, told = MemoryFiles(), Sizes(slots=5, entries=1000), Told()
    store = await opened(disk, index=sizes)
    offsets = await some(store, 5)
    await save_index(store)
    (path,) = disk.paths(FOLDER)
    before = (disk.read(path) or b"")[:60]
    offsets += await some(store, 5, start=5)
    await save_index(store)
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
