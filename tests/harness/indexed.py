"""Messages with keys in a store of small index files, and what the files must be."""

from typing import Any

from harness import index_oracle as oracle
from harness.memory_files import MemoryFiles
from harness.store import ROOT, draft

from popmq_broker.core.store.index import Sizes
from popmq_broker.store.log.commit_log import ScanEnd
from popmq_broker.store.queues.drafts import Draft
from popmq_broker.store.store import Store
from popmq_common.records import properties as names
from popmq_common.records.record import SysFlag

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


def keys_in_log(store: Store) -> list[oracle.Keyed]:
    """Of all records, by a walk over the log."""
    found = []
    for record, _ in store._commit_log.scan(store.log_start, ScanEnd(0)):
        if record.log_offset >= store.log_end:
            break
        if record.sys_flag & SysFlag.ROLLBACK == SysFlag.ROLLBACK:
            continue
        properties = names.decode(record.properties)
        keys = [properties[name] for name in ("UNIQ_KEY",) if name in properties]
        keys += [word for word in properties.get("KEYS", "").split(" ") if word]
        at, ms = record.log_offset, record.store_timestamp_ms
        found += [oracle.Keyed(record.topic, key, at, ms) for key in keys]
    return found


def expected(store: Store, sizes: Sizes = SIZES) -> list[bytes]:
    """By the log alone."""
    return oracle.files(keys_in_log(store), sizes.slots, sizes.entries)


async def save_index(store: Store) -> None:
    """With all that is in the log."""
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
