"""What retention and a full disk mean for tables and metrics."""

import random
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from prometheus_client import generate_latest

from popmq_broker import metrics
from popmq_common.errors import DiskFull, InvalidTransactionId
from popmq_internal.v1 import link_pb2 as link


def full(*_: Any) -> Any:
    raise DiskFull(path="/data")


@pytest.mark.parametrize("crash", [False, True])
def test_tables_that_found_no_room_are_saved_later(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    """The log has the changes; its reserve is there for them."""
    with monkeypatch.context() as patched:
        patched.setattr(driver.broker.state.runtime.store, "save_config", full)
        driver.call(get_group=link.GetGroup(group="made-on-use", create=True))
        driver.call(put_topic=link.PutTopic(topic=topic("orders")))
        with pytest.raises(DiskFull):
            driver.run(driver.broker.offsets.write())
    if crash:
        driver.crash(random.Random(1))
    else:
        driver.run(driver.broker.offsets.write())
        assert not driver.broker.state.catalog_state.unsaved
        driver.restart()
    assert "made-on-use" in driver.broker.state.catalog_state.groups
    assert "orders" in driver.broker.state.catalog_state.topics


def test_a_topic_or_group_that_cannot_be_deleted_is_there_as_before(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.make()
    driver.send("a")
    (message,) = driver.pop()
    with monkeypatch.context() as patched:
        patched.setattr(driver.broker.state.runtime.store, "append", lambda *_, **__: full())
        with pytest.raises(DiskFull):
            driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
        with pytest.raises(DiskFull):
            driver.call(delete_group=link.DeleteGroup(group=GROUP))
    assert driver.ack(message.handle) == [link.LEASE_OUTCOME_DONE]
    driver.send("b")
    assert [found.body for found in driver.pop()] == [b"b"]


def test_metrics_tell_what_went_and_who_lost_it(driver: EngineDriver) -> None:
    driver.make(queues=1)
    driver.pop()
    for number in range(60):
        driver.send(f"m{number}")
    driver.clock.advance(49 * 3_600_000)
    driver.send("young")
    assert driver.retain() == 1
    driver.fill_disk(50)
    page = generate_latest(metrics.registry(driver.broker)).decode()
    (expired,) = (line for line in page.splitlines() if line.startswith("popmq_consumer_expired"))
    lost = driver.broker.state.runtime.store.min_offset(TOPIC, 0)
    assert expired == f'popmq_consumer_expired_messages{{consumer_group="g",topic="t"}} {lost}.0'
    for line in (
        'popmq_storage_deleted_files_total{reason="age"} 1.0',
        'popmq_storage_deleted_files_total{reason="forced"} 0.0',
        'popmq_storage_file_kept{needed_by="leases"} 0.0',
        "popmq_storage_oldest_message_age_seconds 176400.0",
        "popmq_disk_used_ratio 0.5",
        "popmq_disk_state 0.0",
    ):
        assert line in page.splitlines(), line
    group = driver.call(describe=link.Describe(group=GROUP)).describe.groups[0]
    assert [(row.expired, row.min_offset) for row in group.queues if row.topic == TOPIC] == [
        (lost, lost)
    ]


HOUR_MS = 3_600_000


def test_what_waits_keeps_its_file_until_the_disk_is_too_full(tmp_path: Path) -> None:
    """Then it ends without harm to what is behind it."""
    driver = EngineDriver(
        tmp_path, disk_clean_percent=85, disk_refuse_percent=90, retention_files_max=1
    )
    driver.make(queues=1)
    driver.send_later("lost", 60 * HOUR_MS)
    half = driver.half("half")
    for number in range(60):
        driver.send(f"m{number}")
    driver.send_later("later", 60 * HOUR_MS)
    driver.clock.advance(49 * HOUR_MS)
    assert driver.retain() == 0
    assert driver.broker.retention.kept_for == ("timers", "transactions")
    driver.fill_disk(95)
    assert driver.retain() > 0
    driver.fill_disk(10)
    kept = driver.broker.state.runtime.store.log_start
    assert driver.broker.timer_keeper.needed_from() not in (None, 0)
    assert driver.poll_checks() == []
    with pytest.raises(InvalidTransactionId, match="retention"):
        driver.end(half, commit=True)
    driver.end(half, commit=False)
    driver.advance(12 * HOUR_MS)
    assert driver.broker.state.runtime.stats.timed["", "damaged"] == 1
    bodies = [message.body for _ in range(3) for message in driver.pop(32)]
    assert b"later" in bodies
    assert b"lost" not in bodies
    holds = driver.broker.state.runtime.retention_holds
    assert {name: hold() for name, hold in holds.items() if name != "leases"} == {
        "timers": None,
        "transactions": None,
        "export": None,
        "catalog": None,
    }
    driver.restart()
    assert driver.broker.state.runtime.store.log_start == kept
    driver.close()


def topic(name: str) -> link.TopicConfig:
    return link.TopicConfig(name=name, read_queues=1, write_queues=1, message_type="NORMAL")
