"""The audit of what a real broker engine wrote: a life with everything in it, and crashes."""

import random
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.histories import History
from pyspark.sql import SparkSession

from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("few_rows"),
]


def audit(spark: SparkSession, data_dir: Path, folder: Path) -> Report:
    export(data_dir, folder / "snapshot")
    snapshot = opened_snapshot.open_snapshot(folder / "snapshot")
    return reconcile(spark, snapshot, folder / "audit", grace_ms=GRACE_MS)


def live(driver: EngineDriver) -> None:
    """Acks, a change, an expiry with its retry, dead letters; all of it long over."""
    for i in range(20):
        driver.send(f"m{i}")
    messages = driver.pop(10, 1_000)
    driver.ack(*(message.handle for message in messages[:6]))
    held = driver.change(messages[6].handle, 5_000)
    driver.ack(held.handle)
    driver.advance(2_000)  # three go to the retry topic
    for message in driver.pop(32, 1_000):
        if message.delivery_attempt == 1:
            driver.ack(message.handle)
    driver.advance(2_000)  # their second attempt is the last: dead letters
    driver.clock.advance(2 * GRACE_MS)


def test_a_whole_life_passes(spark: SparkSession, tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    driver.make(max_attempts=2)
    live(driver)
    driver.send("late")
    driver.pop(5, 600_000)  # in flight when the broker stops
    driver.run(driver.broker.close())
    driver.loop.close()
    report = audit(spark, driver.data_dir, tmp_path)
    assert report.findings == []
    assert report.verdict is AuditVerdict.PASS
    assert report.lease_states == {
        "acked": 17,
        "dead": 3,
        "in_flight": 1,
        "retried": 3,
        "superseded": 1,
    }


def test_nacks_and_redrives_are_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    driver.make(max_attempts=2)
    for i in range(4):
        driver.send(f"m{i}")
    counted, uncounted, fatal, waits = (message.handle for message in driver.pop())
    driver.nack(counted, delay_ms=1_000)
    driver.nack(uncounted, kind=link.NACK_KIND_UNCOUNTED, delay_ms=0)
    driver.nack(fatal, kind=link.NACK_KIND_FATAL, reason="no")
    driver.nack(waits, delay_ms=600_000)  # in flight when the broker stops
    assert driver.redrive().sent == 1
    driver.advance(2_000)
    driver.ack(*(message.handle for message in driver.pop()))
    driver.clock.advance(2 * GRACE_MS)
    driver.run(driver.broker.close())
    driver.loop.close()
    report = audit(spark, driver.data_dir, tmp_path)
    assert report.findings == []
    assert report.verdict is AuditVerdict.PASS
    assert report.lease_states == {
        "acked": 3,
        "dead": 1,
        "in_flight": 1,
        "retried": 2,
        "superseded": 3,
    }


def test_a_lease_that_was_renewed_is_one_lease_and_due_at_its_last_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    driver = EngineDriver(tmp_path)
    driver.make()
    driver.send("acked after all")
    driver.send("still held")
    messages = driver.pop(2, 10_000, renewed_by="c1")
    for _ in range(2 * GRACE_MS // 6_000):
        driver.advance(6_000)
        driver.alive("c1")
    driver.ack(messages[0].handle)
    driver.run(driver.broker.close())
    driver.loop.close()
    report = audit(spark, driver.data_dir, tmp_path)
    assert report.findings == []
    assert report.lease_states == {"acked": 1, "in_flight": 1}


def test_a_fifo_group_gets_its_messages_again_where_they_lie(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing is written when a lease of it runs out; leases that are handed out together have one
    generation, so one may be two higher than the message's last."""
    driver = EngineDriver(tmp_path)
    driver.make(queues=1, max_attempts=4, fifo=True)
    for name in ("a0", "b0", "c0"):
        driver.send(name, message_group=name[0])
    held = {message.body: message.handle for message in driver.pop(3, 1_000)}
    driver.ack(held[b"c0"])
    driver.advance(2_000)
    (first,) = driver.pop(1, 600_000)  # a0 again, alone: generation 2
    driver.advance(1_000)
    driver.ack(first.handle)
    driver.send("a1", message_group="a")
    again = {message.body: message for message in driver.pop(3, 1_000)}
    assert again.keys() == {b"b0", b"a1"}
    driver.nack(again[b"a1"].handle, delay_ms=0)
    driver.advance(2_000)
    last = {message.body: message.receipt.generation for message in driver.pop(2, 1_000)}
    assert last == {b"b0": 4, b"a1": 4}
    driver.clock.advance(2 * GRACE_MS)  # nobody receives any more
    driver.send("the last record")
    driver.run(driver.broker.close())
    driver.loop.close()
    report = audit(spark, driver.data_dir, tmp_path)
    assert report.findings == []
    assert report.verdict is AuditVerdict.PASS
    assert report.lease_states == {"acked": 2, "in_place": 2, "superseded": 5}


def test_random_lives_of_a_fifo_group_pass(spark: SparkSession, tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    history = History(driver, 11, fifo=True)
    for _ in range(3):
        history.go_on(150)
        history.crash()
    history.go_on(150)
    driver.clock.advance(2 * GRACE_MS)
    driver.deliver_due()
    driver.send("the last record")
    driver.run(driver.broker.close())
    driver.loop.close()
    report = audit(spark, driver.data_dir, tmp_path)
    assert report.findings == []
    assert report.lease_states["in_place"] > 0
    assert report.lease_states["dead"] > 0


def test_crashes_leave_nothing_unaccounted(spark: SparkSession, tmp_path: Path) -> None:
    """After each the broker goes on with what was on disk; the last one ends it."""
    rng = random.Random(5)
    driver = EngineDriver(tmp_path)
    driver.make(max_attempts=2)
    for i in range(6):
        for j in range(8):
            driver.send(f"m{i}-{j}")
        messages = driver.pop(10, 1_000)
        driver.ack(*(message.handle for message in messages[::2]))
        driver.crash(rng)
        driver.advance(1_500)
        driver.ack(*(message.handle for message in driver.pop(3, 1_000)))
    driver.advance(5_000)
    driver.run(driver.broker.offsets.write())
    driver.crash(rng)
    driver.clock.advance(2 * GRACE_MS)
    driver.send("the last record")
    driver.run(driver.broker.offsets.write())
    data_dir = driver.data_dir
    driver.close()
    report = audit(spark, data_dir, tmp_path)
    assert report.findings == []
    assert report.verdict is AuditVerdict.PASS
    assert report.lease_states["acked"] > 20
    assert report.lease_states["retried"] > 10
