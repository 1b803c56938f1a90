"""After a crash or with damaged files: does the index equal the log, and is nothing begun anew?"""

from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.memory_files import MemoryFiles
from harness.store import HALF, ROOT, SEGMENT_BYTES, Told, draft, messages, opened, put

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.store.check.check import Check
from popmq_broker.store.files.segments import name
from popmq_broker.store.store import Draft
from popmq_common.errors import Corrupt

LOG = ROOT / "commitlog"
NOW_MS = 1_700_000_000_000
RECORD = [draft(b"torn", tag="red")]
BATCH = [draft(b"one"), draft(b"two", topic="bills"), draft(b"three", tag="blue")]
PAIR = [draft(b"copy", properties=HALF), draft(b"ack", topic="acks")]


async def torn(drafts: list[Draft], *, marked: bool) -> list[tuple[int, list[int], MemoryFiles]]:
    """The log cut at each byte of the last append, as (kept bytes, ends of its records, disk).

    `marked`: the last mark knew the append to be on disk; then not at each byte.
    """
    disk = MemoryFiles()
    store = await opened(disk)
    await put(store, draft(b"a"))
    await store.checkpoint()
    start = store.log_end
    appended = store.append(drafts, NOW_MS)
    await store.durable(store.log_end)
    if marked:
        await store._mark(0, 0)
    disk.kill()
    store.abandon()
    segment = disk.read(LOG / name(0)) or b""
    made = []
    for end in range(start, appended[-1].end_offset, 7 if marked else 1):
        cut = MemoryFiles()
        for folder in (LOG, ROOT, ROOT / "config", ROOT / "consumequeue" / "orders" / "0"):
            cut.make_folder(folder)
        for path in disk.paths(ROOT):
            cut.replace(path, disk.read(path) or b"")
        cut.replace(LOG / name(0), segment[:end].ljust(SEGMENT_BYTES, b"\0"))
        if not segment[end : appended[-1].end_offset].strip(b"\0"):
            continue  # nothing is missing
        made.append((end, [start, *(at.end_offset for at in appended)], cut))
    return made


def is_sound(disk: MemoryFiles) -> bool:
    return not Check(disk, ROOT, lambda _done, _total: None).run().findings.wrong


@pytest.mark.parametrize("drafts", [RECORD, BATCH, PAIR], ids=["record", "batch", "pair"])
async def test_t67_an_append_torn_at_every_byte(drafts: list[Draft]) -> None:
    """What is whole of it stays, less the half of a pair, and the queues say the same."""
    for kept, ends, disk in await torn(drafts, marked=False):
        whole = max(i for i, end in enumerate(ends) if end <= kept)
        if drafts is PAIR:
            whole = 0
        store = await opened(disk)
        assert store.log_end == ends[whole]
        expected = [b"a"] + [made.body for made in drafts[:whole] if made.topic == "orders"]
        assert messages(store) == expected
        assert messages(store, "bills") == [
            made.body for made in drafts[1:whole] if made.topic == "bills"
        ]
        assert await put(store, draft(b"next")) == [len(expected)]
        await store.close()
        assert is_sound(disk)


@pytest.mark.parametrize("drafts", [RECORD, BATCH, PAIR], ids=["record", "batch", "pair"])
async def test_t67_torn_where_the_mark_knew_it_whole(drafts: list[Draft]) -> None:
    """No crash does that: the start is refused, by file and offset, and nothing is changed."""
    for kept, ends, disk in await torn(drafts, marked=True):
        bad = max(end for end in ends if end <= kept)
        before = {path: disk.read(path) for path in disk.paths(LOG)}
        with pytest.raises(Corrupt, match=f"{name(0)} is damaged at offset {bad}: .* on disk up"):
            await opened(disk)
        assert {path: disk.read(path) for path in disk.paths(LOG)} == before


def consumed(driver: EngineDriver) -> tuple[QueueKey, int]:
    """A group that has consumed five of six messages, and a file that says so."""
    driver.make(queues=1, start="FIRST")
    for i in range(6):
        driver.send(f"m{i}")
    driver.ack(*[message.handle for message in driver.pop(5)])
    driver.run(driver.broker.offsets.write())
    ((key, queue),) = [
        (key, queue)
        for key, queue in driver.broker.state.lease_state.table.queues.items()
        if not key.topic.startswith("%")
    ]
    assert queue.position == 5
    return key, 5


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damaged", ["flipped", "cut"])
def test_t68_positions_that_cannot_be_read_are_not_zero(driver: EngineDriver, damaged: str) -> None:
    """RocketMQ's broker that is not ready answers "no offset", and the client begins at 0."""
    key, _ = consumed(driver)
    driver.advance(1)
    driver.send("more")
    driver.ack(driver.pop(1)[0].handle)
    driver.run(driver.broker.offsets.write())
    driver.run(driver.broker.close())
    for path in (driver.data_dir / "config").glob("consumerOffset.json*"):
        if damaged == "flipped":
            flip(path)
        else:
            path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(Corrupt, match=r"consumerOffset\.json"):
        driver._open()
    for path in (driver.data_dir / "config").glob("consumerOffset.json*"):
        path.unlink()  # what an operator may do: then the journal tells
    driver.broker = driver._open()
    assert driver.broker.state.lease_state.table.queues[key].position == 6


def test_t69_the_offsets_file_is_damaged(driver: EngineDriver) -> None:
    """The generation before it and the journal make the same positions."""
    key, _ = consumed(driver)
    driver.ack(driver.pop(1)[0].handle)
    driver.run(driver.broker.offsets.write())
    driver.run(driver.broker.close())
    flip(driver.data_dir / "config" / "consumerOffset.json")
    driver.broker = driver._open()
    queue = driver.broker.state.lease_state.table.queues[key]
    assert (queue.position, queue.committed, driver.pop()) == (6, 6, [])


async def test_t69_whoever_takes_the_backup_says_so() -> None:
    disk = MemoryFiles()
    store = await opened(disk)
    await store.save_config("topics.json", '{"a": 1}')
    await store.save_config("topics.json", '{"a": 2}')
    await store.close()
    disk.damage(ROOT / "config" / "topics.json", 7, b"3")  # still JSON
    told = Told()
    store = await opened(disk, told=told)
    assert '"a": 1' in (store.load_config("topics.json", str) or "")
    await store.close()
    lines = {line["event"]: line for line in told.lines}
    assert "checksum" in lines["config.damaged"]["reason"]
    assert "last save of topics.json are lost" in lines["config.restored"]["means"]
