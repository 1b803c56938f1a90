"""The simulated world: one broker on one disk, proxies, virtual time, one source of chance."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from sim.disk import SimFiles, SimFlusher
from sim.link import Lost, NotSent, Proxy, Refused
from sim.loop import SimClock, SimLoop
from sim.model import Book, GroupLife
from sim.plan import TOPICS, GroupPlan, draw
from sim.violation import Violation

from popmq_broker import app, metrics
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.store import open as store_open
from popmq_broker.store import store as store_module
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.store import Store
from popmq_common.process.logs import Log
from popmq_common.records import properties as names
from popmq_common.records.names import dead_letter_topic
from popmq_internal.v1 import link_pb2 as link

ROOT = Path("/disk/popmq")
PROXIES = 2
CHECKPOINT_MS = 3_000
Standing = dict[Any, Any]


class World:
    def __init__(self, seed: int, loop: SimLoop) -> None:
        self.random = Random(seed)
        self.loop = loop
        self.clock = SimClock(loop)
        self.plan = draw(self.random)
        self.files = SimFiles()
        self.book = Book()
        self.broker: Broker | None = None
        self.proxies = [Proxy(f"proxy-{i}", self.random) for i in range(PROXIES)]
        self.quakes: dict[str, int] = {}
        """Of a topic or group: odd while it is being made anew."""
        self.troubled = False
        """The broker is down or restarting."""
        self.failed: BaseException | None = None
        self._beside: asyncio.Task[None] | None = None
        self._dead_read: dict[str, int] = {}
        self._lives: dict[str, int] = {}

    # --- the broker's process ---

    def patches(self) -> list[Any]:
        SimFlusher.random = self.random
        return [
            patch.object(store_module, "Flusher", SimFlusher),
            patch.object(app, "open_store", self._open_store),
        ]

    async def _open_store(self, config: StoreConfig, log: Log, **more: Any) -> Store:
        more |= {"files": self.files, "fatal": self._fatal}
        return await store_open.open_store(
            replace(config, checkpoint_interval_ms=3_000), log, **more
        )

    def _fatal(self, failed: BaseException) -> None:
        self.fail(failed)

    def fail(self, failed: BaseException) -> None:
        self.failed = self.failed or failed

    async def start(self) -> None:
        config = BrokerConfig(create_groups=True, data_dir=ROOT, **self.plan.settings)
        broker = await app.open_engine(config, self.clock)
        self._beside = asyncio.create_task(broker.run())
        self._beside.add_done_callback(self._beside_ended)
        self.broker = broker
        self.book.starts += 1
        for proxy in self.proxies:
            proxy.connect(broker)
        self.troubled = False

    def _beside_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self.troubled:
            self.fail(error)

    async def stop(self) -> None:
        """As a process that gets SIGTERM."""
        broker = await self._disconnect()
        await broker.close()

    async def restart(self) -> None:
        """What a clean stop wrote is what the next start finds: I13."""
        broker = await self._disconnect()
        await broker.close()
        before = standings(broker, self.clock.now_ms())
        await self._pause()
        await self.start()
        assert self.broker is not None
        compare(before, standings(self.broker, self.clock.now_ms()), self.clock.now_ms())

    async def die(self, *, power: bool) -> None:
        """kill -9, or (`power`) the machine loses what was not synced."""
        self.troubled = True
        assert self.broker is not None
        store = self.broker.state.runtime.store
        if power:
            await self._until_some_would_be_lost()
            self.files.crash(self.random if self.random.random() < 0.9 else None)
        else:
            self.files.kill()
        store.abandon()
        await self._disconnect()
        await self._pause()
        await self.start()

    async def _until_some_would_be_lost(self) -> None:
        """Mostly, and not for long: a power failure between two pieces of work finds little."""
        for _ in range(self.random.choice([0, 100, 100])):
            if self.files.would_lose("commitlog"):
                return
            await asyncio.sleep(0.001)

    async def _pause(self) -> None:
        await asyncio.sleep(self.random.choice([0.0, 0.01, 1.5]))

    async def _disconnect(self) -> Broker:
        self.troubled = True
        broker, self.broker = self.broker, None
        assert broker is not None
        connections = [task for proxy in self.proxies for task in list(proxy.connections)]
        for proxy in self.proxies:
            proxy.disconnect()
        assert self._beside is not None
        self._beside.cancel()
        with suppress(BaseException):
            await asyncio.gather(self._beside, *connections, return_exceptions=True)
        return broker

    # --- topics and groups ---

    async def make(self) -> None:
        for topic in TOPICS:
            await self.put_topic(topic)
        for group in self.plan.groups:
            await self.put_group(group)

    async def admin(self, **body: Any) -> None:
        """Again and again until the broker has done it, or says that it was done."""
        while True:
            try:
                await self.random.choice(self.proxies).call(**body)
            except (Lost, NotSent):
                await asyncio.sleep(0.05)
            except Refused as refused:
                if refused.error in ("TopicNotFound", "GroupNotFound"):
                    return
                raise
            else:
                return

    async def put_topic(self, name: str) -> None:
        queues = TOPICS[name]
        topic = link.TopicConfig(
            name=name, read_queues=queues, write_queues=queues, message_type="MIXED"
        )
        await self.admin(put_topic=link.PutTopic(topic=topic))
        self.book.topic_made(name)

    async def put_group(self, plan: GroupPlan) -> None:
        config = link.GroupConfig(
            name=plan.name,
            fifo=plan.fifo,
            max_attempts=plan.max_attempts,
            consume_from="LAST" if plan.begins_last else "FIRST",
        )
        await self.admin(put_group=link.PutGroup(group=config))
        number = self._lives[plan.name] = self._lives.get(plan.name, 0) + 1
        tags = None if plan.tags is None else frozenset(plan.tags)
        life = GroupLife(plan.name, number, plan.fifo, plan.max_attempts, tags, plan.begins_last)
        life.sql = plan.sql
        self.book.group_made(life)

    async def remake_topic(self, name: str) -> None:
        await self.admin(delete_topic=link.DeleteTopic(topic=name))
        await self.put_topic(name)

    async def remake_group(self, name: str) -> None:
        plan = next(plan for plan in self.plan.groups if plan.name == name)
        await self.admin(delete_group=link.DeleteGroup(group=name))
        await self.put_group(plan)

    # --- what can be seen besides answers ---

    def read_dead_letters(self) -> None:
        """Visible dead letters that were not looked at yet."""
        if self.broker is None:
            return
        store = self.broker.state.runtime.store
        for group in self.book.groups.values():
            topic = dead_letter_topic(group.name)
            at = self._dead_read.get(topic, 0)
            end = store.max_offset(topic, 0)
            if end < at:
                raise Violation("I1", f"{topic} had {at} dead letters, now {end}")
            for entry in store.entries(topic, 0, at, end - at) if end > at else []:
                record = store.read(entry.log_offset, entry.size_bytes)
                assert record is not None
                found = names.decode(record.properties)
                message = self.book.messages[found[names.UNIQ_KEY]]
                if self.quakes.get(group.name, 0) % 2 == 0:
                    self.book.buried(
                        group,
                        message,
                        (entry.log_offset, record.store_timestamp_ms),
                        int(found["DLQ_ATTEMPTS"]),
                        found["DLQ_REASON"],
                    )
            self._dead_read[topic] = end

    def check_counts(self) -> None:
        """I11, and that the tables agree with each other."""
        if self.broker is None:
            return
        state = self.broker.state
        table = state.lease_state.table
        if table.live_count != sum(len(queue.leases) for queue in table.queues.values()):
            raise Violation("I11", "the count of live leases is wrong")
        for queue in table.queues.values():
            past = queue.fifo_queue is None and any(at >= queue.position for at in queue.leases)
            if queue.committed > queue.position or past:
                raise Violation("I11", f"{queue}: past its position")
        conserved(metrics.BrokerCollector(self.broker).collect())


def conserved(families: Any) -> None:
    """stored = settled + ready + in flight + delayed + blocked + expired, of each group."""
    values: dict[str, dict[tuple[str, str], float]] = {}
    for family in families:
        for sample in family.samples:
            if family.name.startswith("popmq_consumer_"):
                labels = (sample.labels["topic"], sample.labels["consumer_group"])
                kind = family.name.removeprefix("popmq_consumer_").removesuffix("_messages")
                values.setdefault(kind, {})[labels] = sample.value
    for labels, stored in values.get("stored", {}).items():
        parts = {kind: values[kind].get(labels, 0) for kind in PARTS}
        if stored != sum(parts.values()) or min(parts.values()) < 0:
            raise Violation("I11", f"{labels}: stored {stored}, but {parts}")


PARTS = ("settled", "ready", "inflight", "delayed", "blocked", "expired")


def standings(broker: Broker, now_ms: int) -> Standing:
    """Of each group and queue: position, leases that are not over, what is settled out of order."""
    found: Standing = {}
    for key, queue in broker.state.lease_state.table.queues.items():
        leases = {
            offset: (lease.grant.generation, lease.grant.due_ms, lease.log_offset)
            for offset, lease in queue.leases.items()
        }
        settled: set[int] = set()
        if queue.fifo_queue is not None:
            settled = {at for at, entry in queue.fifo_queue.entries.items() if entry.settled}
        found[key] = (queue.needed_from, leases, settled, queue.fifo_queue is not None)
    return found


def compare(before: Standing, after: Standing, now_ms: int) -> None:
    if before.keys() != after.keys():
        lost, new = before.keys() - after.keys(), after.keys() - before.keys()
        raise Violation("I13", f"a restart lost {lost}, made {new}")
    for key, (position, leases, settled, fifo) in before.items():
        found_position, found, found_settled, _ = after[key]
        if found_position != position or settled != found_settled:
            text = f"{position} {settled}, after a restart {found_position} {found_settled}"
            raise Violation("I13", f"{key}: {text}")
        more = found.keys() - leases.keys()
        # what came back in place was not journaled: it is held again until its time is over
        if any(found.get(at) != lease for at, lease in leases.items()) or (more and not fifo):
            raise Violation("I13", f"{key}: leases {leases}, after a restart {found}")
