"""Lives of a store on a disk in memory that end in crashes, and an oracle of bytes.

Each life does random appends, waits and checkpoints, and ends in a clean stop, a kill, or a power
cut that keeps any sectors of what was not synced. Starts, checkpoints and stops may themselves be
cut off at any change of the disk. The oracle is the book of what was appended; after each start

    - the log's files are a prefix of it, byte for byte, then zeros, with all that was answered (I1)
    - the queues hold exactly the messages of that prefix, byte for byte after a clean stop (I13)
    - the first half of a pair never is the last record
    - no crash alone makes the queues be built from the whole log
    - the store goes on: the next append continues there
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from harness.memory_files import MemoryFiles, PowerCut
from harness.store import HALF, ROOT, SEGMENT_BYTES, Told, draft, messages, opened

from popmq_broker.core.store.queue_entry import ENTRY_BYTES, pack
from popmq_broker.store.check.check import Check
from popmq_broker.store.store import Draft, Store
from popmq_common.errors import DiskFull, StoreClosed
from popmq_common.records import record

QUEUES = [("orders", 0), ("orders", 1), ("bills", 0)]
QUEUE_FILE_BYTES = 60
NOW_MS = 1_700_000_000_000


@dataclass(slots=True)
class Written:
    """One appended message."""

    queue: tuple[str, int]
    body: bytes
    is_half: bool
    """It means nothing without the next one."""
    log_offset: int
    size_bytes: int


@dataclass(slots=True)
class Book:
    """What must be true: all appended messages in log order, and the log's bytes."""

    appended: list[Written] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)
    answered: int = 0
    """How many of them were answered, so must survive."""

    def cut(self, count: int, log_end: int) -> None:
        del self.appended[count:]
        del self.log[log_end:]
        self.answered = count

    def bodies(self, queue: tuple[str, int]) -> list[bytes]:
        return [made.body for made in self.appended if made.queue == queue]

    def entries(self, queue: tuple[str, int]) -> bytes:
        return b"".join(
            pack(made.log_offset, made.size_bytes, 0)
            for made in self.appended
            if made.queue == queue
        )


class CrashWorld:
    def __init__(self, random: Random, *, sync_flush: bool) -> None:
        self.random = random
        self.files = MemoryFiles()
        self.book = Book()
        self.sync_flush = sync_flush
        self.count = 0
        self.crashes = 0
        self.told = Told()

    async def open(self) -> Store:
        """Sometimes the power goes off while it starts."""
        while True:
            if self.random.random() < 0.3:
                self.files.steps_left = self.random.randint(0, 25)
            try:
                return await opened(
                    self.files,
                    sync_flush=self.sync_flush,
                    queue_file_bytes=QUEUE_FILE_BYTES,
                    open_queue_files_max=2,
                    fatal=_no_failure,
                    told=self.told,
                )
            except PowerCut:
                self.crashes += 1
                self.files.steps_left = None
                self.files.crash(self.random)
            finally:
                self.files.steps_left = None

    def append(self, store: Store) -> int | None:
        """Where the appended records end; None when the disk was full."""
        drafts = [self.draft(b"") for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.2:
            drafts += [self.draft(HALF), self.draft(b"")]
        if self.random.random() < 0.1:
            self.files.capacity_bytes = self.files.used_bytes + self.random.randint(0, 1500)
        before = store.log_end
        try:
            appended = store.append(drafts, NOW_MS + self.count)
        except DiskFull:
            return None
        finally:
            self.files.capacity_bytes = 1 << 40
        for made, at in zip(drafts, appended, strict=True):
            queue = (made.topic, made.queue_id)
            size_bytes = at.end_offset - at.log_offset
            is_half = made.properties == HALF
            written = Written(queue, made.body, is_half, at.log_offset, size_bytes)
            self.book.appended.append(written)
        del self.book.log[before:]
        self.book.log += log_bytes(self.files)[before : store.log_end]
        return store.log_end

    def draft(self, properties: bytes) -> Draft:
        self.count += 1
        topic, queue_id = self.random.choice(QUEUES)
        body = b"%d:" % self.count + b"x" * self.random.choice([0, 1, 90, 600])
        return draft(body, topic=topic, queue_id=queue_id, properties=properties)

    async def live(self, store: Store) -> None:
        for _ in range(self.random.randint(0, 12)):
            what = self.random.random()
            if what < 0.8:
                end_offset = self.append(store)
                if end_offset is not None and self.random.random() < 0.6:
                    await store.durable(end_offset)
                    if self.sync_flush:
                        self.book.answered = len(self.book.appended)
            elif what < 0.9:
                await store.checkpoint()
            else:
                await asyncio.sleep(0)

    def check(self, store: Store) -> None:
        """The log now decides how much was kept."""
        book = self.book
        visible = [messages(store, *queue) for queue in QUEUES]
        kept = sum(len(bodies) for bodies in visible)
        assert book.answered <= kept <= len(book.appended), (book.answered, kept)
        book.cut(kept, store.log_end)
        assert visible == [book.bodies(queue) for queue in QUEUES]
        if book.appended:
            assert not book.appended[-1].is_half
        log = log_bytes(self.files)
        mine, rest = log[: store.log_end], log[store.log_end :]
        book.log += mine[len(book.log) :]  # a blank that a disk full or a crash has left
        assert _without_padding(mine) == _without_padding(bytes(book.log))
        assert not rest.strip(b"\0")
        assert "queues.rebuilt" not in self.told.events, self.told.lines

    def check_files(self) -> None:
        """After a clean stop the queue files are what the log says."""
        for topic, queue_id in QUEUES:
            folder = ROOT / "consumequeue" / topic / str(queue_id)
            data = b"".join(self.files.read(path) or b"" for path in self.files.paths(folder))
            entries = self.book.entries((topic, queue_id))
            assert data[: len(entries)] == entries
            assert not data[len(entries) :].strip(b"\0")
            assert len(data) - len(entries) < QUEUE_FILE_BYTES + ENTRY_BYTES

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            store = await self.open()
            self.check(store)
            await self.live(store)
            await self.end(store)
        store = await self.open()
        self.check(store)
        await store.close()
        self.check_files()
        assert Check(self.files, ROOT, lambda _done, _total: None).run().findings.wrong == []

    async def end(self, store: Store) -> None:
        how = self.random.random()
        if how < 0.2:
            await store.close()
            self.book.answered = len(self.book.appended)
            self.check_files()
            return
        self.crashes += 1
        if how < 0.5:
            await self.cut_off(store.close if how < 0.35 else store.checkpoint)
        if 0.5 <= how < 0.6:
            self.files.kill()
        else:
            self.files.crash(self.random if how < 0.95 else None)
        store.abandon()

    async def cut_off(self, work: Callable[[], Awaitable[object]]) -> None:
        """The power goes off while `work` is done."""
        self.files.steps_left = self.random.randint(0, 12)
        try:
            await work()
        except (PowerCut, StoreClosed):
            pass
        finally:
            self.files.steps_left = None


def _no_failure(failed: BaseException) -> None:
    if not isinstance(failed, PowerCut):
        raise AssertionError("the disk failed") from failed


def log_bytes(files: MemoryFiles) -> bytes:
    """All of the log's files as one."""
    folder = ROOT / "commitlog"
    return b"".join(
        (files.read(path) or b"").ljust(SEGMENT_BYTES, b"\0") for path in files.paths(folder)
    )


def _without_padding(log: bytes) -> bytes:
    """What follows a blank's eight bytes in its file may be anything."""
    parts = []
    at = 0
    while at < len(log):
        total, magic = record.peek(log[at : at + record.BLANK_BYTES])
        if total <= 0:
            parts.append(log[at:])
            break
        size_bytes = record.BLANK_BYTES if magic == record.MAGIC_BLANK else total
        parts.append(log[at : at + size_bytes])
        at += total
    return b"".join(parts)
