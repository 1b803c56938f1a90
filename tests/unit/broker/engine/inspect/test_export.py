"""What the broker does for a snapshot: watermarks of one moment, files kept, one at a time."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC

from popmq_broker import metric_table
from popmq_broker.clients import exporter as exporter_process
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.metrics import BrokerCollector
from popmq_common.errors import ExportRunning, ExportsNothing
from popmq_internal.v1 import link_pb2 as link

DONE = {
    "snapshotId": "s1",
    "place": "/there",
    "whole": True,
    "why": "it is the first",
    "rows": 3,
    "bytes": 4,
    "logFrom": 0,
    "logEnd": 5,
    "problems": [],
    "removed": [],
}


class Slow:
    """An exporter that works until it is let go; it keeps its order."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.order: dict[str, Any] = {}

    async def __call__(self, order: str, tell: Callable[[int], None]) -> dict[str, Any]:
        self.order = json.loads(order)
        tell(17)
        self.began.set()
        await self.go.wait()
        return self.result


@pytest.fixture
def driver(tmp_path: Path) -> EngineDriver:
    opened = EngineDriver(tmp_path, export_dir=str(tmp_path / "out"), retention_ms=1_000)
    opened.make(queues=1)
    return opened


async def begin(driver: EngineDriver, slow: Slow) -> link.ExportReply:
    """It has its order and waits to be let go."""
    exports = driver.broker.exports
    exports.exporter = slow
    await exports.begin(link.ExportSnapshot())
    await slow.began.wait()
    return await exports.status(link.ExportStatus())


async def end(driver: EngineDriver, slow: Slow) -> link.ExportReply:
    slow.go.set()
    exports = driver.broker.exports
    assert exports.running is not None
    await exports.running
    return await exports.status(link.ExportStatus())


def test_the_watermarks_are_of_one_moment(driver: EngineDriver) -> None:
    slow = Slow(DONE)
    driver.send("one")
    driver.ack(driver.pop()[0].handle)
    driver.send("two")
    driver.run(begin(driver, slow))
    driver.send("behind it")
    driver.run(end(driver, slow))
    marks = slow.order["watermarks"]
    assert marks["queues"][TOPIC] == {"0": [0, 2]}
    table = offsets.decode(marks["offsets"], where="test")
    assert table.offsets[QueueKey(GROUP, TOPIC, 0)] == 1
    assert table.log_end == marks["logEnd"]
    assert marks["logEnd"] < driver.broker.state.runtime.store.log_end
    assert (marks["broker"], marks["cluster"]) == ("broker-a", "PopMQ")
    driver.close()


def test_what_is_not_on_disk_is_in_no_snapshot(driver: EngineDriver) -> None:
    """The snapshot waits for what was sent before it was asked for."""
    slow = Slow(DONE)
    driver.hold_disk()
    sent = driver.start(**send_body("waits for the disk"))
    begun = driver.loop.create_task(begin(driver, slow))
    driver.run(asyncio.sleep(0.01))
    assert not slow.order
    driver.let_go_of_disk()
    driver.run(asyncio.wait_for(begun, 10))
    driver.run(asyncio.wait_for(sent, 10))
    assert slow.order["watermarks"]["queues"][TOPIC] == {"0": [0, 1]}
    driver.run(end(driver, slow))
    driver.close()


def test_files_of_the_log_stay_until_it_is_done(driver: EngineDriver) -> None:
    slow = Slow(DONE)
    for i in range(60):
        driver.send(f"{i}-{'x' * 200}")
    driver.run(begin(driver, slow))
    driver.advance(5_000)
    driver.send("young")
    assert driver.retain() == 0
    assert driver.broker.retention.kept_for == ("export",)
    driver.run(end(driver, slow))
    assert driver.retain() > 0
    driver.close()


def test_one_at_a_time_and_its_progress_is_told(driver: EngineDriver) -> None:
    slow = Slow(DONE)
    during = driver.run(begin(driver, slow))
    assert during.rows == 17
    assert not during.HasField("last")
    with pytest.raises(ExportRunning) as refused:
        driver.call(export_snapshot=link.ExportSnapshot())
    assert refused.value.fields["snapshot_id"] == during.snapshot_id
    after = driver.run(end(driver, slow))
    assert after.snapshot_id == ""
    assert (after.last.snapshot_id, after.last.rows, after.last.failure) == ("s1", 3, "")
    driver.close()


def test_a_failure_is_told_and_the_next_one_may_begin(driver: EngineDriver) -> None:
    slow = Slow({"failed": "pyarrow is not installed: pip install 'popmq[export]'"})
    driver.run(begin(driver, slow))
    after = driver.run(end(driver, slow))
    assert "pip install" in after.last.failure
    again = Slow(DONE)
    driver.run(begin(driver, again))
    assert driver.run(end(driver, again)).last.failure == ""
    driver.close()


def test_metrics_count_exports_and_tell_how_old_the_last_snapshot_is(driver: EngineDriver) -> None:
    def age_s() -> list[float]:
        families = {one.name: one for one in BrokerCollector(driver.broker).collect()}
        return [sample.value for sample in families[metric_table.EXPORT_AGE.name].samples]

    for result in (DONE, {"failed": "the disk is full"}, DONE):
        assert age_s() == [60.0] * min(1, driver.broker.exports.ended["complete"])
        slow = Slow(result)
        driver.run(begin(driver, slow))
        driver.run(end(driver, slow))
        driver.advance(60_000 if result is DONE else 0)
    assert driver.broker.exports.ended == {"complete": 2, "failed": 1}
    driver.close()


def test_a_broker_without_a_place_says_what_to_set(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    with pytest.raises(ExportsNothing, match="POPMQ_BROKER_EXPORT_DIR"):
        driver.call(export_snapshot=link.ExportSnapshot())
    driver.close()


def test_a_broker_that_stops_ends_it(driver: EngineDriver) -> None:
    slow = Slow(DONE)
    driver.run(begin(driver, slow))
    driver.run(driver.broker.close())
    assert driver.broker.exports.running is not None
    assert driver.broker.exports.running.cancelled()
    driver.loop.close()


def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str) -> None:
    """Another module in the exporter's place."""
    (tmp_path / "stand_in.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(exporter_process, "MODULE", "stand_in")


async def test_a_process_that_dies_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process(monkeypatch, tmp_path, "raise SystemError('no way')")
    result = await exporter_process.run("{}", lambda _: None)
    assert "ended with code 1" in result["failed"]
    assert "no way" in result["failed"]


async def test_a_process_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = "import sys\nprint('{\"rows\": 5}')\nprint(sys.stdin.read())"
    process(monkeypatch, tmp_path, source)
    rows: list[int] = []
    assert await exporter_process.run('{"snapshotId": "s1"}', rows.append) == {"snapshotId": "s1"}
    await asyncio.sleep(0)
    assert rows == [5]


async def test_a_process_that_is_not_wanted_any_more_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = "import time\nprint('{\"rows\": 1}', flush=True)\ntime.sleep(3600)"
    process(monkeypatch, tmp_path, source)
    began = asyncio.Event()
    task = asyncio.create_task(exporter_process.run("{}", lambda _: began.set()))
    await asyncio.wait_for(began.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
