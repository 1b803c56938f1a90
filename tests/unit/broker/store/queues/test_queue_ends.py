"""config/queueEnds.json, and starts without it or with an older one."""

import pytest
from harness.memory_files import MemoryFiles
from harness.store import ROOT, Told, crash, draft, filled, messages, opened, put, running

from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, Ends, QueueEnds
from popmq_common.errors import Corrupt

FILE = ROOT / "config" / QUEUE_ENDS_FILE
BACKUP = FILE.with_name(f"{QUEUE_ENDS_FILE}.bak")


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


def test_round_trip() -> None:
    ends = QueueEnds(7, 4711, {("%RETRY%é", 0): Ends(0, 5), ("orders", 12): Ends(3, 3)})
    assert queue_ends.decode(queue_ends.encode(ends)) == ends


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"logStart": 0, "logEnd": 1, "queues": {"t": {"0": [1]}}}',
        '{"logStart": 0, "logEnd": 1, "queues": {"t": {"0": [2, 1]}}}',
        '{"logStart": 0, "logEnd": 1, "queues": {"t": {"0": [-1, 1]}}}',
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(Corrupt, match=QUEUE_ENDS_FILE):
        queue_ends.decode(text)


async def test_an_older_one_is_as_good(disk: MemoryFiles) -> None:
    store = await opened(disk)
    for i in range(3):
        await put(store, draft(b"%d" % i))
        await store.checkpoint()
    crash(store, disk, disk.kill)
    disk.damage(FILE, 20, b"?")
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store) == [b"0", b"1", b"2"]
        assert "queues.rebuilt" not in told.events
        assert "config.restored" in told.events


async def test_without_one_the_queues_are_made_again(disk: MemoryFiles) -> None:
    bodies = await filled(disk)
    disk.lose(FILE)
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store) == bodies
    assert "queues.rebuilt" in told.events


async def test_before_the_first_checkpoint_nothing_is_missed(disk: MemoryFiles) -> None:
    store = await opened(disk)
    await put(store, draft(b"a"))
    crash(store, disk, disk.kill)
    assert not disk.exists(FILE)
    told = Told()
    async with running(disk, told=told) as store:
        assert messages(store) == [b"a"]
    assert told.events == ["store.recovered"]


async def test_it_is_written_only_when_it_has_changed(disk: MemoryFiles) -> None:
    await filled(disk)
    before = disk.read(FILE)
    async with running(disk) as store:
        await store.checkpoint()
        assert not disk.exists(BACKUP)
        await put(store, draft(b"a"))
    assert disk.read(BACKUP) == before
