"""What a store does with torn, damaged, full and shared disks."""

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from popmq_broker.core.record import Record
from popmq_broker.engine.send import tag_of
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.open import open_store
from popmq_broker.store.store import Arrival, Draft, Store
from popmq_common import hosts, logs
from popmq_common.errors import BadRequest, Corrupt, DirectoryInUse, DiskFull

SEGMENT_BYTES = 1024


def never(record: Record) -> bool:
    return False


def fatal(failed: BaseException) -> None:
    raise failed


async def opened(folder: Path) -> Store:
    config = StoreConfig(
        data_dir=folder,
        segment_bytes=SEGMENT_BYTES,
        queue_file_bytes=100,
        disk_reserve_bytes=0,
    )
    return await open_store(
        config, logs.get("test"), tag_of=tag_of, is_first_of_pair=never, fatal=fatal
    )


def draft(body: bytes, queue_id: int = 0) -> Draft:
    return Draft(
        topic="t",
        queue_id=queue_id,
        body=body,
        properties=b"TAGS\x01a\x02",
        tags_code=97,
        sys_flag=0,
        flag=0,
        born_timestamp_ms=1,
        born_host=hosts.LOCAL,
    )


async def put(store: Store, *bodies: bytes) -> None:
    appended = store.append([draft(body) for body in bodies], 1)
    await store.durable(appended[-1].end_offset)


def bodies(store: Store) -> list[bytes]:
    entries = store.entries("t", 0, 0, 1_000)
    records = [store.read(entry.log_offset, entry.size_bytes) for entry in entries]
    return [record.body for record in records if record is not None]


def abandon(store: Store) -> None:
    """As if the process had died."""
    store._flusher.close()
    store._commit_log.close()
    store._lock.release()


async def test_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    wanted = [f"message {i}".encode() for i in range(60)]  # several segments and queue files
    store = await opened(tmp_path)
    await put(store, *wanted)
    await store.close()
    store = await opened(tmp_path)
    assert bodies(store) == wanted
    await put(store, b"more")
    assert bodies(store) == [*wanted, b"more"]
    assert len(list((tmp_path / "commitlog").iterdir())) > 3
    await store.close()


async def test_nothing_is_visible_before_it_is_durable(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    seen: list[Arrival] = []
    store.arrivals = seen.extend
    (at,) = store.append([draft(b"x")], 1)
    assert store.max_offset("t", 0) == 0
    assert seen == []
    await store.durable(at.end_offset)
    assert store.max_offset("t", 0) == 1
    assert seen == [Arrival("t", 0, 0, 97)]
    await store.close()


async def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    store = await opened(tmp_path / "whole")
    await put(store, b"one", b"two")
    (last,) = store.append([draft(b"three")], 1)
    await store.durable(last.end_offset)
    abandon(store)
    log = (tmp_path / "whole/commitlog" / f"{0:020d}").read_bytes()
    for kept in range(last.log_offset, last.end_offset):
        folder = tmp_path / str(kept)
        (folder / "commitlog").mkdir(parents=True)
        torn = log[:kept].ljust(SEGMENT_BYTES, b"\0")
        if torn == log:
            continue
        (folder / "commitlog" / f"{0:020d}").write_bytes(torn)
        again = await opened(folder)
        assert bodies(again) == [b"one", b"two"]
        await put(again, b"four")
        assert bodies(again) == [b"one", b"two", b"four"]
        await again.close()


async def test_damage_in_the_middle_is_refused_naming_file_and_offset(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, b"one", b"two", b"three")
    await store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    at = data.index(b"two")
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=f"{path} is damaged at offset"):
        await opened(tmp_path)


async def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, *[b"x" * 100 for _ in range(20)])
    await store.close()
    (tmp_path / "commitlog" / f"{SEGMENT_BYTES:020d}").unlink()
    with pytest.raises(Corrupt, match="the file before it is missing"):
        await opened(tmp_path)


async def test_lost_queue_files_after_a_crash_are_rebuilt(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, b"one", b"two")
    abandon(store)
    assert not list((tmp_path / "consumequeue").iterdir())
    again = await opened(tmp_path)
    assert bodies(again) == [b"one", b"two"]
    await again.close()


async def test_a_full_disk_is_refused_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await put(store, b"before")

    def half_then_full(file: int, data: bytes, offset: int) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_pwrite(file, data[:99], offset)

    real_pwrite = os.pwrite
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half_then_full)
        with pytest.raises(DiskFull, match="nothing was stored"):
            store.append([draft(b"refused"), draft(b"x" * 10)], 1)
    assert bodies(store) == [b"before"]
    await put(store, b"after")
    assert bodies(store) == [b"before", b"after"]
    await store.close()
    store = await opened(tmp_path)
    assert bodies(store) == [b"before", b"after"]
    await store.close()


async def test_the_reserve_is_for_leases_and_acks(tmp_path: Path) -> None:
    config = StoreConfig(data_dir=tmp_path, segment_bytes=4096, disk_reserve_bytes=1 << 62)
    store = await open_store(
        config, logs.get("test"), tag_of=tag_of, is_first_of_pair=never, fatal=fatal
    )
    with pytest.raises(DiskFull):
        store.append([draft(b"x")], 10_000)
    assert store.append([draft(b"x")], 10_000, system=True)
    await store.close()


async def test_a_record_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    with pytest.raises(BadRequest, match="segment_bytes"):
        store.append([draft(b"x" * SEGMENT_BYTES)], 1)
    await store.close()


async def test_a_directory_in_use_names_the_holder(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    script = (
        "import sys; from pathlib import Path; from popmq_broker.store.lock_file import LockFile\n"
        "try: LockFile(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path), stdout=subprocess.PIPE
    )
    found = (await process.communicate())[0].decode()
    assert found.startswith("DirectoryInUse")
    assert f"process {os.getpid()}" in found
    await store.close()
    again = await opened(tmp_path)
    await again.close()


async def test_many_waiters_share_an_fdatasync(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    batches: list[int] = []
    store.synced = lambda _seconds, records: batches.append(records)
    await asyncio.gather(*(put(store, b"x") for _ in range(200)))
    assert sum(batches) == 200
    assert len(batches) < 20
    await store.close()


async def test_a_damaged_configuration_file_falls_back_to_the_one_before(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.save_config("x.json", "1")
    await store.save_config("x.json", "2")
    path = tmp_path / "config" / "x.json"

    def decode(text: str) -> int:
        if not text.isdigit():
            raise Corrupt(path="x.json", offset=0, reason="no number")
        return int(text)

    assert store.load_config("x.json", decode) == 2
    path.write_text("")
    assert store.load_config("x.json", decode) == 1
    path.with_suffix(".json.bak").write_text("?")
    with pytest.raises(Corrupt):
        store.load_config("x.json", decode)
    assert store.load_config("none.json", decode) is None
    await store.close()


async def test_two_stores_of_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    with pytest.raises(DirectoryInUse):
        await opened(tmp_path)
    await store.close()
