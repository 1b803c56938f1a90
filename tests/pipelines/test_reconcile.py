"""The audit of a real broker's files: PASS when all is well, FAIL with the offset, INCOMPLETE."""

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from harness.broker import EngineDriver
from pyspark.sql import SparkSession

from popmq_pipelines.export import MANIFEST, SnapshotExists, export
from popmq_pipelines.reconcile import Verdict, reconcile
from popmq_pipelines.session import session
from popmq_pipelines.snapshot import open_snapshot

pytestmark = [
    pytest.mark.pipelines,
    # Spark's own sockets and temporary files, closed by its finalizers.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
GRACE_MS = 60_000


@pytest.fixture(scope="session")
def spark(monkeypatch_session: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    monkeypatch_session.setenv("POPMQ_SPARK_MASTER", "local[2]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        started = session("tests")
        started.conf.set("spark.sql.shuffle.partitions", "2")
        yield started
        started.stop()


@pytest.fixture(scope="session")
def monkeypatch_session() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A broker's life: acks, a change, an expiry with its retry, dead letters, one in flight."""
    driver = EngineDriver(tmp_path)
    driver.make(max_attempts=2)
    for i in range(20):
        driver.send(f"m{i}")
    messages = driver.pop(10, 1_000)
    driver.ack(*(message.lease for message in messages[:6]))
    held = driver.change(messages[6].lease, 5_000)
    driver.ack(held.lease)
    driver.advance(2_000)  # 7, 8, 9 go to the retry topic
    for message in driver.pop(32, 1_000):
        if message.delivery_attempt == 1:
            driver.ack(message.lease)
    driver.advance(2_000)  # their second attempt is the last: dead letters
    driver.clock.advance(200_000)
    driver.send("late")
    driver.pop(5, 600_000)  # in flight when the broker stops
    driver.run(driver.broker.close())
    driver.loop.close()
    return driver.data_dir


def judge(spark: SparkSession, snapshot: Path) -> Verdict:
    return reconcile(spark, open_snapshot(snapshot), snapshot / "result", grace_ms=GRACE_MS)


def drop_row(snapshot: Path, table: str, number: int) -> dict[str, object]:
    """Take one row out of an exported table, and make the manifest agree with the file."""
    path = snapshot / f"{table}.parquet"
    rows = pq.read_table(path)
    taken: dict[str, object] = rows.slice(number, 1).to_pylist()[0]
    keep = [i for i in range(rows.num_rows) if i != number]
    pq.write_table(rows.take(keep), path)
    manifest = json.loads((snapshot / MANIFEST).read_text())
    manifest["files"][table]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (snapshot / MANIFEST).write_text(json.dumps(manifest))
    return taken


def test_a_clean_history_passes(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    export(history, tmp_path / "snap")
    verdict = judge(spark, tmp_path / "snap")
    assert verdict.findings == []
    assert verdict.verdict == "PASS"
    assert set(verdict.leases) == {"acked", "redelivered", "in flight"}
    assert verdict.leases["in flight"] == 1
    assert json.loads((tmp_path / "snap/result/verdict.json").read_text())["verdict"] == "PASS"


def test_a_missing_ack_fails_and_is_named(
    spark: SparkSession, history: Path, tmp_path: Path
) -> None:
    export(history, tmp_path / "snap")
    taken = drop_row(tmp_path / "snap", "acks", 0)
    verdict = judge(spark, tmp_path / "snap")
    assert verdict.verdict == "FAIL"
    (found,) = verdict.findings
    assert found["finding"] == "lease is overdue, neither acked nor redelivered"
    for column in ("consumer_group", "topic", "queue_id", "queue_offset"):
        assert found[column] == taken[column]


def test_a_missing_checkpoint_fails(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    export(history, tmp_path / "snap")
    taken = drop_row(tmp_path / "snap", "checkpoints", 0)
    (found,) = judge(spark, tmp_path / "snap").findings
    assert found["finding"] == "ack without a checkpoint"
    assert found["queue_offset"] == taken["queue_offset"]


def test_a_missing_message_fails(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    export(history, tmp_path / "snap")
    drop_row(tmp_path / "snap", "messages", 0)
    verdict = judge(spark, tmp_path / "snap")
    assert {found["finding"] for found in verdict.findings} == {
        "lease of a message that is not stored"
    }


@pytest.mark.parametrize("damage", ["missing", "changed", "no manifest"])
def test_a_snapshot_that_is_not_whole_says_nothing(
    spark: SparkSession, history: Path, tmp_path: Path, damage: str
) -> None:
    export(history, tmp_path / "snap")
    if damage == "missing":
        (tmp_path / "snap/acks.parquet").unlink()
    elif damage == "changed":
        with open(tmp_path / "snap/acks.parquet", "ab") as file:
            file.write(b"x")
    else:
        (tmp_path / "snap" / MANIFEST).unlink()
    verdict = judge(spark, tmp_path / "snap")
    assert verdict.verdict == "INCOMPLETE"
    assert verdict.problems


def test_an_empty_log_is_not_green(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "data/commitlog").mkdir(parents=True)
    export(tmp_path / "data", tmp_path / "snap")
    assert judge(spark, tmp_path / "snap").verdict == "INCOMPLETE"


def test_a_snapshot_is_never_written_over(history: Path, tmp_path: Path) -> None:
    export(history, tmp_path / "snap")
    with pytest.raises(SnapshotExists):
        export(history, tmp_path / "snap")
