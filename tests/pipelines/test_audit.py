"""`make audit`: a real broker, its traffic, and faults that are put in behind its back. Exported,
reconciled, and found: each of them, with its offsets, and nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC
from pyspark.sql import SparkSession

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.engine.journal import journal
from popmq_broker.store.queues.drafts import Draft
from popmq_common.records import hosts, names, properties, record
from popmq_common.units import QueueOffset
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]

CLOCK_BACK_MS = 10_000
ELSEWHERE = "x"
"""As long as the topic's name: a record can be rewritten in its place."""


class Saboteur:
    """Knows the broker's parts and does to its log what no request would."""

    def __init__(self, driver: EngineDriver) -> None:
        self.driver = driver
        self.runtime: Any = driver.broker.state.runtime
        self.expected: set[tuple[str, str, int, int]] = set()

    def append(self, *drafts: Draft, late_ms: int = 0) -> list[Any]:
        """`late_ms`: the broker's clock is that much behind, for once."""
        now_ms = self.driver.clock.now_ms() - late_ms

        async def step() -> list[Any]:
            appended = self.runtime.store.append(drafts, now_ms, system=True)
            await self.runtime.store.durable(self.runtime.store.log_end)
            return list(appended)

        return self.driver.run(step())

    def lease(self, queue_id: int, offset: int, *, later_ms: int = 0) -> ck.Checkpoint:
        """A checkpoint that the lease table does not know."""
        now_ms = self.driver.clock.now_ms() + later_ms
        made = ck.Checkpoint(
            topic=TOPIC,
            group=GROUP,
            queue_id=queue_id,
            start_offset=QueueOffset(offset),
            offsets=(offset,),
            pop_time_ms=now_ms,
            invisible_ms=1_000,
            broker=self.runtime.config.name,
        )
        self.append(journal.checkpoint(self.runtime, made, 0, now_ms))
        queue = self.driver.broker.state.lease_state.table.queues[QueueKey(GROUP, TOPIC, queue_id)]
        self.expected.add(("position went back", TOPIC, queue_id, queue.position))
        return made

    def ack(self, lease: ck.Checkpoint) -> None:
        tag, body = ck.encode_ack(
            ck.AckRecord(
                topic=lease.topic,
                group=lease.group,
                queue_id=lease.queue_id,
                start_offset=lease.start_offset,
                offsets=lease.offsets,
                pop_time_ms=lease.pop_time_ms,
                broker=lease.broker,
                generation=lease.generation,
                expired=False,
            )
        )
        named = {properties.TAGS: tag}
        self.append(self._draft(self.runtime.revive_topic, 0, body, named))

    def _draft(self, topic: str, queue_id: int, body: bytes, named: dict[str, str]) -> Draft:
        return Draft(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=properties.encode(named),
            tags_code=tags_code(named.get(properties.TAGS, "")),
            sys_flag=0,
            flag=0,
            born_timestamp_ms=self.driver.clock.now_ms(),
            born_host=hosts.LOCAL,
        )

    def lose_an_ack(self) -> None:
        """The consumer is told that it is done; the record never reaches the log."""
        (message,) = self.driver.pop(1, 1_000)
        store = self.runtime.store
        append = store.append

        def swallow(drafts: Any, now_ms: int, *, system: bool = False) -> Any:
            """In its place a position of a group that nobody has, set to where it is."""
            del drafts
            harmless = ck.Checkpoint(
                topic=TOPIC,
                group="nobody",
                queue_id=0,
                start_offset=QueueOffset(0),
                offsets=(),
                pop_time_ms=now_ms,
                invisible_ms=0,
                broker=self.runtime.config.name,
            )
            return append([journal.checkpoint(self.runtime, harmless, 0, now_ms)], now_ms)

        store.append = swallow
        try:
            assert self.driver.ack(message.handle) == [1]
        finally:
            store.append = append
        self.expected.add(("position gone", TOPIC, 0, 0))  # of nobody
        self._expect_forgotten_lease(message.receipt.queue_id, message.receipt.queue_offset)

    def stuck_checkpoint(self, queue_id: int, offset: int) -> None:
        self.lease(queue_id, offset)
        self._expect_forgotten_lease(queue_id, offset)

    def _expect_forgotten_lease(self, queue_id: int, offset: int) -> None:
        """The log holds it, the broker does not: its next start would not read it either."""
        self.expected.add(("lease overdue", TOPIC, queue_id, offset))
        self.expected.add(("replay would skip", TOPIC, queue_id, offset))

    def unknown_ack(self, queue_id: int, offset: int) -> None:
        lease = self.lease(queue_id, offset)
        self.ack(lease)
        self.ack(replace(lease, pop_time_ms=1))
        self.expected.add(("ack without checkpoint", TOPIC, queue_id, offset))

    def two_holders(self, queue_id: int, offset: int) -> None:
        leases = [self.lease(queue_id, offset, later_ms=i) for i in range(2)]
        for lease in leases:
            self.ack(lease)
        self.expected.add(("leased while held", TOPIC, queue_id, offset))

    def second_dead_letter(self) -> None:
        topic = names.dead_letter_topic(GROUP)
        named = {properties.UNIQ_KEY: "id-again", properties.FIRST_POP_TIME: "1"}
        self.append(self._draft(topic, 0, b"again", named))
        self.expected.add(("copy without end", topic, 0, self._last_offset(topic)))

    def _last_offset(self, topic: str) -> int:
        return int(self.runtime.store._queues.next_offset((topic, 0))) - 1

    def clock_back(self) -> None:
        store, topic = self.runtime.store, "clock"
        before, store._last_store_ms = store._last_store_ms, 0
        late = self._draft(topic, 0, b"late", {properties.UNIQ_KEY: "id-late"})
        self.append(late, late_ms=CLOCK_BACK_MS)
        store._last_store_ms = before
        self.expected.add(("clock went back", topic, 0, 0))

    def lose_a_message(self, data_dir: Path, body: bytes) -> None:
        """In the file, after the broker has stopped: the record is now of another topic."""
        for path in sorted((data_dir / "commitlog").iterdir()):
            data = path.read_bytes()
            at = 0
            while at + record.BLANK_BYTES <= len(data):
                total, magic = record.peek(data[at : at + record.BLANK_BYTES])
                if magic == record.MAGIC_BLANK or total <= 0:
                    break
                found = record.decode(
                    data[at : at + total], where="log", log_offset=int(path.name) + at
                )
                if found.topic == TOPIC and found.body == body:
                    moved = record.encode(found._replace(topic=ELSEWHERE))
                    assert len(moved) == total
                    path.write_bytes(data[:at] + moved + data[at + total :])
                    self.expected.add(
                        ("message missing", TOPIC, found.queue_id, found.queue_offset)
                    )
                    if found.queue_offset:  # nor has the other topic the offsets before it
                        self.expected.add(("message missing", ELSEWHERE, found.queue_id, 0))
                    return
                at += total
        raise AssertionError(f"no record of {body!r}")


def live(driver: EngineDriver) -> None:
    """Acks, a change, expiries, retries and dead letters."""
    for i in range(40):
        driver.send(f"m{i}")
    messages = driver.pop(10, 1_000)
    driver.ack(*(message.handle for message in messages[:6]))
    held = driver.change(messages[6].handle, 5_000)
    driver.ack(held.handle)
    driver.advance(2_000)
    for message in driver.pop(4, 1_000):
        driver.ack(message.handle)
    driver.advance(2_000)
    driver.pop(3, 1_000)
    driver.advance(2_000)


def test_what_is_done_behind_a_broker_s_back_is_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    driver = EngineDriver(tmp_path / "broker")
    driver.make(queues=4, max_attempts=2)
    live(driver)
    saboteur = Saboteur(driver)
    saboteur.lose_an_ack()
    live(driver)
    untouched = untouched_places(driver)
    saboteur.stuck_checkpoint(*untouched[0])
    saboteur.unknown_ack(*untouched[1])
    saboteur.two_holders(*untouched[2])
    saboteur.second_dead_letter()
    driver.send("after it")
    saboteur.clock_back()
    driver.clock.advance(2 * GRACE_MS)
    driver.send("the last record")
    driver.run(driver.broker.close())
    driver.loop.close()
    saboteur.lose_a_message(driver.data_dir, b"m0")

    export(driver.data_dir, tmp_path / "snapshot")
    report = reconcile(
        spark,
        opened_snapshot.open_snapshot(tmp_path / "snapshot"),
        tmp_path / "out",
        grace_ms=GRACE_MS,
    )
    found = {
        (row["kind"], row["topic"], row["queue_id"], row["queue_offset"]) for row in report.findings
    }
    assert found == saboteur.expected
    assert len(report.findings) == len(saboteur.expected)
    assert report.verdict is AuditVerdict.FAIL


def untouched_places(driver: EngineDriver) -> list[tuple[int, int]]:
    """Places of messages that nobody was given yet, in three queues."""
    store: Any = driver.broker.state.runtime.store
    for i in range(3):
        driver.call(**send_body(f"fresh-{i}", queue_id=i))
    return [(i, int(store._queues.next_offset((TOPIC, i))) - 1) for i in range(3)]
