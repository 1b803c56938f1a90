"""Whatever a crash keeps or loses of what was not synced: what was answered is there.

Drives a store on a disk in memory with random appends, waits, checkpoints and clean stops, then
cuts the power with some of the unsynced bytes kept. After each start

    - the log is a prefix of what was appended and has everything that was answered (I1)
    - log = queues: each record in its queue, offsets dense from 0 (I13)
    - the first half of a pair never is the last record
    - the store goes on: the next append continues there
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest
from harness.memory_files import MemoryFiles
from harness.store import HALF, draft, messages, opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from popmq_broker.store.store import Draft, Store
from popmq_common.errors import DiskFull

QUEUES = [("orders", 0), ("orders", 1), ("bills", 0)]


@dataclass
class Model:
    """What must be true: all appended messages in log order."""

    appended: list[tuple[tuple[str, int], bytes, bool]] = field(default_factory=list)
    """(queue, body, first half of a pair)"""
    answered: int = 0
    """How many of them were answered, so must survive."""

    def cut(self, count: int) -> None:
        del self.appended[count:]
        self.answered = count

    def bodies(self, queue: tuple[str, int]) -> list[bytes]:
        return [body for at, body, _ in self.appended if at == queue]


class World:
    def __init__(self, random: Random, *, sync_flush: bool) -> None:
        self.random = random
        self.files = MemoryFiles()
        self.model = Model()
        self.sync_flush = sync_flush
        self.count = 0

    async def open(self) -> Store:
        return await opened(
            self.files, sync_flush=self.sync_flush, queue_file_bytes=60, open_queue_files_max=2
        )

    def append(self, store: Store) -> int | None:
        """Where the appended records end; None when the disk was full."""
        drafts = [self.draft(b"") for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.2:
            drafts += [self.draft(HALF), self.draft(b"")]
        if self.random.random() < 0.1:
            self.files.capacity_bytes = self.files.used_bytes + self.random.randint(0, 1500)
        try:
            appended = store.append(drafts, 1_700_000_000_000 + self.count)
        except DiskFull:
            return None
        finally:
            self.files.capacity_bytes = 1 << 40
        self.model.appended += [
            ((made.topic, made.queue_id), made.body, made.properties == HALF) for made in drafts
        ]
        return appended[-1].end_offset

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
                        self.model.answered = len(self.model.appended)
            elif what < 0.9:
                await store.checkpoint()
            else:
                await asyncio.sleep(0)

    def check(self, store: Store) -> None:
        """The log now decides how much was kept."""
        visible = [messages(store, *queue) for queue in QUEUES]
        kept = sum(len(bodies) for bodies in visible)
        assert self.model.answered <= kept <= len(self.model.appended)
        self.model.cut(kept)
        assert visible == [self.model.bodies(queue) for queue in QUEUES]
        if self.model.appended:
            assert not self.model.appended[-1][2]

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            store = await self.open()
            self.check(store)
            await self.live(store)
            end = self.random.random()
            if end < 0.25:
                await store.close()
                self.model.answered = len(self.model.appended)
            elif end < 0.5:
                self.files.kill()
                store.abandon()
            else:
                self.files.crash(self.random if end < 0.9 else None)
                store.abandon()
        store = await self.open()
        self.check(store)
        await store.close()


@pytest.mark.parametrize("sync_flush", [True, False])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_crash_loses_nothing_that_was_answered(sync_flush: bool, seed: int) -> None:
    asyncio.run(World(Random(seed), sync_flush=sync_flush).run())
