"""A disk that is full, or fails, at any call: what was answered OK is there, and it goes on.

The same work is done again and again; each time something goes wrong at another call that changes
the disk.

    full     the next calls that need room find none, then there is room again: nothing ends,
             refusals are typed, and without a restart all that was sent OK comes
    failed   one call of any kind fails: the process ends at once or nothing has happened, and a
             start on what had been synced finds all that was sent OK

The fast suite takes some of the calls, `make disk` takes all.
"""

import asyncio
import errno
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from harness.broker import SEGMENT_BYTES
from harness.broker_calls import Popped, ack_body, handle, pop_body, popped
from harness.memory_files import MemoryFiles
from harness.names import GROUP, TOPIC
from harness.store import ROOT

from popmq_broker import opening
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.store.open import open_store
from popmq_common.errors import DiskFull, StoreClosed
from popmq_common.process.clock import VirtualClock
from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link

NEEDS_ROOM = {"make_folder", "open", "pwrite", "replace"}
ALL = os.environ.get("DISK_CALLS") == "all"
SAMPLE = 12
RETENTION_MS = 15_000
"""So short that what is sent first expires before all of it is acked."""


class Ended(Exception):
    """What `fatal` raises here; in a broker the process is gone."""


class Trouble:
    """Counts the calls, and lets some fail."""

    def __init__(self, first: int, count: int, number: int, among: Callable[[str], bool]) -> None:
        self.calls = 0
        self._failing = range(first, first + count)
        self._number = number
        self._among = among

    def __call__(self, method: str) -> None:
        if self._among(method):
            self.calls += 1
            if self.calls - 1 in self._failing:
                raise OSError(self._number, f"{method} failed")


class Work:
    """A broker on a disk in memory, and what was answered."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.clock = VirtualClock()
        self.sent: set[str] = set()
        self.tried: set[str] = set()
        self.acked: set[str] = set()
        self.ack_tried: set[str] = set()
        self.ended: list[BaseException] = []
        self.broker: Broker

    async def open(self) -> None:
        config = BrokerConfig(
            data_dir=ROOT,
            segment_bytes=SEGMENT_BYTES,
            queue_file_bytes=200,
            disk_reserve_bytes=0,
            disk_clean_percent=100,
            disk_refuse_percent=100,
            retention_ms=RETENTION_MS,
            revive_queues=2,
            index_slots=10,
            index_entries=100,
        )
        opened = partial(open_store, files=self.files)
        with patch.object(
            opening, "open_store", lambda *a, **k: opened(*a, **k | {"fatal": self.end})
        ):
            self.broker = await opening.open_engine(config, self.clock)

    def end(self, failed: BaseException) -> None:
        self.ended.append(failed)

    async def call(self, **body: Any) -> link.Reply | None:
        """None: refused."""
        if self.ended:
            raise Ended
        try:
            async with asyncio.timeout(10):
                return await handle(self.broker, link.Call(**body))
        except StoreClosed:
            raise Ended from None
        except DiskFull:
            return None

    async def send(self, body: str) -> None:
        named = {properties.UNIQ_KEY: body}
        record = link.OutgoingRecord(
            body=body.encode() + b"." * 1_000,
            properties=properties.encode(named),
            born_timestamp_ms=7,
            born_host=hosts.LOCAL,
        )
        self.tried.add(body)
        send = link.Send(topic=TOPIC, queue_id=len(self.tried) % 2, records=[record])
        reply = await self.call(send=send)
        if reply is not None:
            self.sent.add(body)

    async def pop(self, count: int) -> list[Popped]:
        reply = await self.call(**pop_body(count, 10_000))
        return [] if reply is None else [popped(message) for message in reply.pop.messages]

    async def ack(self, messages: list[Popped]) -> None:
        for message in messages:
            name = name_of(message)
            assert name not in self.acked, f"{name} came after its ack"
            self.ack_tried.add(name)
            request = ack_body([message.handle])
            reply = await self.call(**request)
            if reply is not None and link.LEASE_OUTCOME_DONE in reply.ack.outcomes:
                self.acked.add(name)

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        while await self.broker.revive.revive_due():
            pass

    async def beside(self) -> None:
        """What runs beside the calls."""
        if self.ended:
            raise Ended
        with suppress(DiskFull):
            await self.broker.offsets.write()
        await self.broker.state.runtime.store.checkpoint()
        await self.broker.retention.round()
        if self.ended:
            raise Ended

    async def make(self) -> None:
        topic = link.TopicConfig(name=TOPIC, read_queues=2, write_queues=2, message_type="MIXED")
        group = link.GroupConfig(name=GROUP, max_attempts=100, consume_from="FIRST")
        for _ in range(200):  # an operator does it again
            if await self.call(put_topic=link.PutTopic(topic=topic)) is not None:
                break
        for _ in range(200):
            if await self.call(put_group=link.PutGroup(group=group)) is not None:
                break

    async def live(self) -> None:
        await self.make()
        for turn in range(4):
            for i in range(6):
                await self.send(f"m{turn}.{i}")
            await self.ack((await self.pop(5))[:3])
            await self.pass_time(11_000)
            await self.beside()
        await self.ack((await self.pop(5))[:3])

    async def check(self) -> None:
        """With a disk that works: all that was sent, not acked and not expired comes."""
        await self.make()
        last = f"last {len(self.tried)}"
        await self.send(last)
        assert last in self.sent, "there is room, but sends are refused"
        queues = self.broker.state.lease_state.table.queues
        for _ in range(30):
            await self.pass_time(31_000)  # all that is held comes back
            missing = self.sent - self.ack_tried - await self._all_that_comes()
            expired = sum(queue.expired for queue in queues.values())
            if len(missing) <= expired:
                return
        raise AssertionError(f"lost: {sorted(missing)}, {expired} are said to be expired")

    async def _all_that_comes(self) -> set[str]:
        found: set[str] = set()
        while messages := await self.pop(32):
            for name in map(name_of, messages):
                assert name in self.tried
                assert name not in self.acked, f"{name} came after its ack"
                assert name not in found, f"{name} is held, but came twice"
                found.add(name)
        return found

    async def restart(self) -> None:
        await self.broker.close()
        await self.open()


def name_of(message: Popped) -> str:
    return message.body.decode().rstrip(".")


@asynccontextmanager
async def working() -> AsyncIterator[Work]:
    work = Work()
    await work.open()
    try:
        yield work
    finally:
        work.broker.state.runtime.store.abandon()


async def _calls(among: Callable[[str], bool]) -> int:
    """How many calls the work makes when nothing is wrong."""
    async with working() as work:
        count = work.files.trouble = Trouble(0, 0, 0, among)
        await work.live()
        assert len(work.sent) == 24
        assert len(work.acked) >= 12
        assert work.broker.retention.deleted
        calls = count.calls
        await work.check()
        return calls


def chosen(count: int) -> list[int]:
    if ALL:
        return list(range(count))
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return sorted(random.Random(seed).sample(range(count), min(SAMPLE, count)))


@pytest.mark.parametrize("room_after", [1, 7, 60])
async def test_a_full_disk_at_any_call(room_after: int) -> None:
    for first in chosen(await _calls(NEEDS_ROOM.__contains__)):
        print(f"full from call {first} on, for {room_after} calls")
        async with working() as work:
            work.files.trouble = Trouble(first, room_after, errno.ENOSPC, NEEDS_ROOM.__contains__)
            await work.live()
            work.files.trouble = Trouble(0, 0, 0, NEEDS_ROOM.__contains__)
            await work.check()
            assert not work.ended
            await work.restart()
            await work.check()


async def test_a_disk_that_fails_at_any_call() -> None:
    ends = 0
    for first in chosen(await _calls(lambda _: True)):
        print(f"call {first} fails")
        async with working() as work:
            trouble = work.files.trouble = Trouble(first, 1, errno.EIO, lambda _: True)
            with suppress(Ended, StoreClosed):
                await work.live()
                await work.call(describe=link.Describe())
            if trouble.calls <= first:
                assert not work.ended, "nothing failed"
                continue  # two writes shared a sync this time: there were fewer calls than counted
            index = work.broker.state.runtime.store.index
            index_stopped = index is not None and index.failed is not None
            assert work.ended or index_stopped, "nobody was told"
            ends += 1
            work.files.crash()
            work.broker.state.runtime.store.abandon()
            work.ended.clear()
            work.files.trouble = Trouble(0, 0, 0, lambda _: True)
            await work.open()
            await work.check()
    assert ends
