"""Whatever a crash keeps or loses: what the index finds is what a walk over the log finds.

Drives a store with tiny index files (every hash collides, files roll all the time) through random
appends, saves, checkpoints and clean stops, then cuts the power or kills it with some of the
unsynced bytes kept. After each start every key is looked for, and at the end the files must be,
byte for byte, what an encoder written from RocketMQ's description makes of the log.
"""

import asyncio
from random import Random
from typing import Any

import pytest
from harness import index_oracle as oracle
from harness.indexed import keys_in_log
from harness.memory_files import MemoryFiles
from harness.store import ROOT, SMALL, draft, opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from popmq_broker.core.store.index import Sizes
from popmq_broker.store.index import index, index_file, index_kept
from popmq_broker.store.queues.drafts import Draft
from popmq_broker.store.store import Store
from popmq_common.errors import DiskFull
from popmq_common.records import properties as names

TOPICS = ["orders", "bills"]
KEYS = ["a", "b", "Aa", "BB", "größe", "k" * 40]  # Aa and BB have one hash
UNSAVED = 60


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (index, index_file):
        monkeypatch.setattr(module, "UNSAVED_ENTRIES_MAX", UNSAVED)
    monkeypatch.setattr(index, "TURN_RECORDS", 5)
    monkeypatch.setattr(index_kept, "KEPT_BYTES_MAX", 2_000)
    monkeypatch.setattr(index, "LINGER_RECORDS", 5)
    monkeypatch.setattr(index, "TAIL_BYTES_MAX", 100)
    monkeypatch.setattr(index, "BATCH_KEYS_MAX", 9)


class World:
    def __init__(self, random: Random, *, sync_flush: bool) -> None:
        self.random = random
        self.files = MemoryFiles()
        self.sync_flush = sync_flush
        self.sizes = Sizes(slots=random.choice([1, 3, 50]), entries=random.choice([2, 9, 100, 400]))
        self.count = 0
        self.now_ms = 1_700_000_000_000

    async def open(self) -> Store:
        return await opened(
            self.files, SMALL, sync_flush=self.sync_flush, index=self.sizes, queue_file_bytes=400
        )

    def draft(self) -> Draft:
        self.count += 1
        chance = self.random
        properties: dict[str, str] = {}
        if chance.random() < 0.8:
            properties["UNIQ_KEY"] = f"01AB{self.count % 9:08d}"
        if chance.random() < 0.7:
            properties["KEYS"] = " ".join(chance.choices(KEYS, k=chance.randint(1, 2)))
        flags: dict[str, Any] = {"sys_flag": 0xC} if chance.random() < 0.05 else {}
        return draft(
            b"x" * chance.choice([0, 1, 90, 300]),
            topic=chance.choice(TOPICS),
            properties=names.encode(properties),
            **flags,
        )

    async def live(self, store: Store) -> None:
        for _ in range(self.random.randint(0, 15)):
            what = self.random.random()
            self.now_ms += self.random.choice([0, 0, 1, 700, 5_000])
            if what < 0.75:
                drafts = [self.draft() for _ in range(self.random.randint(1, 5))]
                self.maybe_full(0.05)
                try:
                    end_offset = store.append(drafts, self.now_ms)[-1].end_offset
                except DiskFull:
                    continue
                finally:
                    self.files.capacity_bytes = 1 << 40
                if self.random.random() < 0.6:
                    await store.durable(end_offset)
            elif what < 0.85:
                await store.checkpoint()
            elif what < 0.9:
                assert store.index is not None
                self.maybe_full(0.4)
                await store.index.save()
                self.files.capacity_bytes = 1 << 40
            else:
                await asyncio.sleep(0)

    def maybe_full(self, chance: float) -> None:
        if self.random.random() < chance:
            self.files.capacity_bytes = self.files.used_bytes + self.random.randint(0, 900)

    async def check(self, store: Store) -> None:
        assert store.index is not None
        await store.durable(store.log_end)
        await store.checkpoint()
        await store.index.caught_up()
        keys = keys_in_log(store)
        self.now_ms = max([self.now_ms, *(one.store_ms for one in keys)])
        start_ms, end_ms = self.now_ms - self.random.choice([1 << 40, 3_000]), self.now_ms
        for topic in TOPICS:
            for key in [*KEYS, *(f"01AB{i:08d}" for i in range(9))]:
                wanted = oracle.key_hash(topic, key)
                expected = [
                    one.log_offset
                    for one in keys[::-1]
                    if oracle.key_hash(one.topic, one.key) == wanted and one.store_ms >= start_ms
                ]
                found = [
                    at
                    for at in store.index.candidates(topic, key, start_ms, end_ms)
                    if at is not None
                ]
                in_time = [at for at in found if self.ms_of(store, at) >= start_ms]
                assert in_time == expected, (topic, key)

    def ms_of(self, store: Store, log_offset: int) -> int:
        assert store.index is not None
        record = store.index.read(log_offset)
        assert record is not None
        return record.store_timestamp_ms

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            store = await self.open()
            await self.check(store)
            await self.live(store)
            end = self.random.random()
            if end < 0.3:
                await store.close()
            elif end < 0.5:
                self.files.kill()
                store.abandon()
            else:
                self.files.crash(self.random if end < 0.9 else None)
                store.abandon()
        store = await self.open()
        await self.check(store)
        keys = keys_in_log(store)
        await store.close()
        contents = [self.files.read(path) for path in self.files.paths(ROOT / "index")]
        assert contents == oracle.files(keys, self.sizes.slots, self.sizes.entries)


@pytest.mark.parametrize("sync_flush", [True, False])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_the_index_finds_what_the_log_holds(sync_flush: bool, seed: int) -> None:
    asyncio.run(World(Random(seed), sync_flush=sync_flush).run())
