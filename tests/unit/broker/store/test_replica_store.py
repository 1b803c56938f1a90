"""The store of a replica: what is on disk here and what the group has are two things."""

import asyncio
from typing import Any

import pytest
from harness.memory_files import MemoryFiles
from harness.store import ROOT, SMALL, draft, messages, put, running

from popmq_broker.store.open import open_store
from popmq_broker.store.queues.entry_check import code_of_tag
from popmq_broker.store.recovery.cut_tail import begin_anew, cut_tail
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import Corrupt, StoreClosed
from popmq_common.process import logs

NOW_MS = 1_700_000_000_000


async def opened(files: MemoryFiles) -> ReplicaStore:
    def fatal(failed: BaseException) -> None:
        raise AssertionError("the disk failed") from failed

    return await open_store(
        SMALL,
        logs.get("test"),
        is_first_of_pair=lambda _: False,
        code_of=code_of_tag,
        fatal=fatal,
        files=files,
        kind=ReplicaStore,
    )


async def bytes_of(*bodies: bytes) -> tuple[bytes, list[int]]:
    """A primary's log with these messages, all in one queue; where each ends."""
    async with running(MemoryFiles()) as primary:
        appended = primary.append([draft(body) for body in bodies], NOW_MS)
        return primary.raw(0, primary.log_end), [one.end_offset for one in appended]


async def on_disk(store: ReplicaStore, end: int) -> None:
    reached = asyncio.Event()
    store.on_disk = lambda now: reached.set() if now >= end else None
    if store.durable_end < end:
        await asyncio.wait_for(reached.wait(), 10)


async def test_a_follower_shows_what_is_committed_and_no_more() -> None:
    data, ends = await bytes_of(b"a", b"b", b"c")
    store = await opened(MemoryFiles())
    store.take(data)
    await on_disk(store, ends[2])
    assert messages(store) == []
    store.commit(ends[1])
    assert messages(store) == [b"a", b"b"]
    store.commit(ends[0])  # what is told late changes nothing
    assert (store.committed_end, messages(store)) == (ends[1], [b"a", b"b"])
    store.commit(ends[2])
    assert messages(store) == [b"a", b"b", b"c"]
    store.abandon()


async def test_a_commit_point_within_a_record_shows_the_records_before_it() -> None:
    data, ends = await bytes_of(b"a", b"b")
    store = await opened(MemoryFiles())
    store.take(data)
    store.commit(ends[0] + 5)
    assert (store.committed_end, messages(store)) == (ends[0], [b"a"])
    store.abandon()


async def test_a_new_primary_counts_on_behind_what_was_not_committed() -> None:
    data, ends = await bytes_of(b"a", b"b")
    store = await opened(MemoryFiles())
    store.take(data)
    store.commit(ends[0])
    await store.lead()
    (appended,) = store.append([draft(b"c")], NOW_MS)
    assert appended.queue_offset == 2
    assert messages(store)[:1] == [b"a"]
    sent = asyncio.ensure_future(store.durable(appended.end_offset))
    await on_disk(store, appended.end_offset)
    await asyncio.sleep(0)
    assert not sent.done()  # on disk here, and not answered
    store.commit(appended.end_offset)
    await sent
    assert messages(store) == [b"a", b"b", b"c"]
    store.abandon()


async def test_senders_learn_that_their_primary_is_none_any_more() -> None:
    store = await opened(MemoryFiles())
    await store.lead()
    (appended,) = store.append([draft(b"a")], NOW_MS)
    sent = asyncio.ensure_future(store.durable(appended.end_offset))
    await asyncio.sleep(0)
    store.abandon()
    with pytest.raises(StoreClosed):
        await sent
    with pytest.raises(StoreClosed):
        store.append([draft(b"b")], NOW_MS)


async def test_what_is_on_disk_and_not_committed_is_there_after_a_crash() -> None:
    files = MemoryFiles()
    data, ends = await bytes_of(b"a", b"b")
    store = await opened(files)
    store.take(data)
    await on_disk(store, ends[1])
    files.crash()
    store.abandon()
    again = await opened(files)
    assert (again.log_end, again.committed_end) == (ends[1], 0)
    again.commit(ends[1])
    assert messages(again) == [b"a", b"b"]
    again.abandon()


async def test_a_cut_holds_after_a_loss_of_power_and_other_bytes_take_its_place() -> None:
    files = MemoryFiles()
    data, ends = await bytes_of(b"a", b"b")
    other, other_ends = await bytes_of(b"a", b"other")
    store = await opened(files)
    store.take(data)
    await on_disk(store, ends[1])
    store.commit(ends[0])
    store.abandon()
    cut_tail(files, SMALL, ends[0])
    files.crash()
    again = await opened(files)
    assert again.log_end == ends[0]
    again.take(other[ends[0] :])
    again.commit(other_ends[1])
    assert messages(again) == [b"a", b"other"]
    again.abandon()


async def test_an_emptied_directory_goes_on_where_the_primary_begins() -> None:
    files = MemoryFiles()
    async with running(files) as before:
        await put(before, draft(b"old"))
    begin_anew(files, SMALL, SMALL.segment_bytes, frozenset())
    store = await opened(files)
    assert (store.log_start, store.log_end) == (SMALL.segment_bytes, SMALL.segment_bytes)
    assert messages(store) == []
    assert not files.paths(ROOT / "consumequeue")
    store.abandon()


async def test_damage_is_not_shown() -> None:
    data, ends = await bytes_of(b"a", b"b")
    wrong: Any = bytearray(data)
    wrong[ends[0] + 60] ^= 1
    store = await opened(MemoryFiles())
    store.take(bytes(wrong))
    with pytest.raises(Corrupt):
        store.commit(ends[1])
    assert messages(store) in ([], [b"a"])
    store.abandon()
