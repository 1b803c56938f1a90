"""A store on a small disk in memory, and what tests ask of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from harness.memory_files import MemoryFiles

from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import Files
from popmq_broker.store.open import open_store
from popmq_broker.store.queues.entry_check import CodeOf, code_of_tag
from popmq_broker.store.store import Draft, Store
from popmq_common.process import logs
from popmq_common.records import hosts
from popmq_common.records.record import Record

ROOT = Path("/disk/popmq")
SEGMENT_BYTES = 1024
SMALL = StoreConfig(
    data_dir=ROOT, segment_bytes=SEGMENT_BYTES, queue_file_bytes=80, disk_reserve_bytes=0
)
HALF = b"HALF\x01yes\x02"
"""Property of the first record of a pair, in these tests."""


class Fatal:
    """Remembers what ended the process."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __call__(self, failed: BaseException) -> None:
        self.errors.append(failed)


def draft(
    body: bytes = b"hello", *, topic: str = "orders", queue_id: int = 0, tag: str = "", **more: Any
) -> Draft:
    properties = f"TAGS\x01{tag}\x02".encode() if tag else b""
    values: dict[str, Any] = {
        "topic": topic,
        "queue_id": queue_id,
        "body": body,
        "properties": properties,
        "tags_code": tags_code(tag) if tag else 0,
        "sys_flag": 0,
        "flag": 0,
        "born_timestamp_ms": 1_700_000_000_000,
        "born_host": hosts.LOCAL,
    }
    return Draft(**values | more)


class Told:
    """A log that remembers its lines."""

    def __init__(self) -> None:
        self._capture = structlog.testing.LogCapture()
        self.log: logs.Log = structlog.wrap_logger(
            None, processors=[self._capture], wrapper_class=structlog.stdlib.BoundLogger
        )

    @property
    def lines(self) -> list[Any]:
        return list(self._capture.entries)

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


async def opened(
    files: Files,
    config: StoreConfig = SMALL,
    *,
    fatal: Callable[[BaseException], None] | None = None,
    told: Told | None = None,
    code_of: CodeOf = code_of_tag,
    **changes: Any,
) -> Store:
    def is_first_of_pair(record: Record) -> bool:
        return HALF in record.properties

    return await open_store(
        replace(config, **changes),
        told.log if told else logs.get("test"),
        is_first_of_pair=is_first_of_pair,
        code_of=code_of,
        fatal=fatal or _no_failure,
        files=files,
    )


def _no_failure(failed: BaseException) -> None:
    raise AssertionError("the disk failed") from failed


@asynccontextmanager
async def running(files: Files, **changes: Any) -> AsyncIterator[Store]:
    """Open for the context; closed cleanly unless it was let go of inside."""
    store = await opened(files, **changes)
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, *drafts: Draft, now_ms: int = 1_700_000_000_000) -> list[int]:
    """Append and wait until it is on disk; the queue offsets."""
    appended = store.append(drafts, now_ms)
    await store.durable(appended[-1].end_offset)
    return [at.queue_offset for at in appended]


async def filled(disk: MemoryFiles, count: int = 12) -> list[bytes]:
    """A cleanly closed store: records of 171 bytes, five to a segment."""
    bodies = [b"%03d" % i + b"x" * 50 for i in range(count)]
    async with running(disk) as store:
        for body in bodies:
            await put(store, draft(body))
    return bodies


def crash(store: Store, files: MemoryFiles, how: Callable[[], None]) -> None:
    """`how` is `files.crash` or `files.kill`, with arguments bound."""
    how()
    store.abandon()


def messages(store: Store, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Bodies of all visible messages of a queue; checks that each entry fits its record."""
    low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    entries = store.entries(topic, queue_id, low, high - low)
    assert len(entries) == high - low
    bodies = []
    for offset, entry in enumerate(entries, low):
        record = store.read(entry.log_offset, entry.size_bytes)
        assert record is not None
        assert (record.topic, record.queue_id) == (topic, queue_id)
        assert record.queue_offset == offset
        bodies.append(record.body)
    return bodies
