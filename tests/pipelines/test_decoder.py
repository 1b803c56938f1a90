"""Two readers of one store, that share the codec of a record alone, say the same."""

import shutil
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.exports import export, table
from harness.histories import History
from harness.log_writer import LogWriter
from pyspark.sql import SparkSession

from popmq_common.records.count_report import CountedAs, CountReport, CountRow, encode
from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export as export_files
from popmq_pipelines.jobs.decode import CannotDecode, compare, decode
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.tables import opened_snapshot

pytestmark = pytest.mark.pipelines
HISTORIES = 10
STEPS = 120


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with everything in it, and the last of the snapshots its broker made."""
    folder = tmp_path_factory.mktemp("lived")
    return life(folder, seed=100)


def life(folder: Path, seed: int, *, fifo: bool = False) -> tuple[Path, Path]:
    driver = EngineDriver(folder, export_dir=str(folder / "out"))
    history = History(driver, seed, fifo=fifo)
    for i in range(3):
        history.go_on(STEPS // 3)
        if i == 2:
            driver.send("for a filter", "a")
            driver.pop(4, 500, expression="a || b")
        driver.call(report_counts=link.ReportCounts(report=encode(report(i))))
        if i == 1 and seed % 3 == 0:
            history.crash()
        done = export(driver)
        assert (done.failure, list(done.problems)) == ("", [])
    driver.run(driver.broker.close())
    driver.loop.close()
    return driver.data_dir, Path(done.place)


def report(sequence: int) -> CountReport:
    sent = CountRow(CountedAs.SENT, "orders", "", 60_000, 3, (1 << 63) - 1)
    acked = CountRow(CountedAs.ACKED, "orders", "billing", 120_000, 1, 7)
    return CountReport("host@1", "01AA", sequence, 1, 2, sequence == 2, 5, (sent, acked))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_exporter_and_decoder_agree(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """On a random life; what the exporter has comes from three snapshots that go on."""
    data_dir, snapshot = life(tmp_path, seed, fifo=seed % 3 == 1)
    decoded = decode(spark, data_dir, tmp_path / "decoded")
    assert decoded.problems == []
    for name in SNAPSHOT_TABLES:
        found = table(snapshot, name)
        if name == "queue_watermarks":  # a broker also tells of queues that hold nothing
            found = [row for row in found if row[2] < row[3]]
        assert sorted(table(tmp_path / "decoded", name), key=repr) == sorted(found, key=repr), name
    exported = follow(snapshot).manifest
    for field in ("broker", "cluster", "log_end", "log_first_ms"):
        assert getattr(decoded, field) == getattr(exported, field), field
    if seed == 0:  # else it would agree about nothing
        told = {name: rows["rows"] for name, rows in exported.files.items()}
        assert told.pop("queue_faults") == 0
        assert all(told.values()), told


def test_a_decoded_store_can_be_audited(
    spark: SparkSession, tmp_path: Path, lived: tuple[Path, Path]
) -> None:
    decode(spark, lived[0], tmp_path / "decoded", "s1")
    snapshot = opened_snapshot.open_snapshot(tmp_path / "decoded")
    assert snapshot.problems == ()
    report = reconcile(spark, snapshot, None, grace_ms=GRACE_MS)
    assert (report.findings, report.verdict) == ([], AuditVerdict.PASS)


def test_a_difference_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """One of the two has an ack that the other has not."""
    log = LogWriter(tmp_path / "data")
    for i in range(3):
        log.send(f"m{i}")
    lease = log.pop(0, 1)
    log.ack(lease, 0)
    log.save_offsets()
    export_files(log.data_dir, tmp_path / "before")
    log.ack(lease, 1)
    (log.data_dir / "consumequeue").mkdir()
    decode(spark, log.data_dir, tmp_path / "after")
    found = compare(spark, tmp_path / "after", tmp_path / "before")
    assert found["pop_acks"] == {"only_first": 1, "only_second": 0}
    assert found["commitlog_index"] == {"only_first": 1, "only_second": 0}
    assert "pop_checkpoints" not in found
    assert compare(spark, tmp_path / "after", tmp_path / "after") == {}


def damaged(lived: tuple[Path, Path], folder: Path) -> Path:
    shutil.copytree(lived[0], folder / "data")
    return folder / "data"


def test_an_entry_that_leads_elsewhere_is_a_problem(
    spark: SparkSession, tmp_path: Path, lived: tuple[Path, Path]
) -> None:
    data_dir = damaged(lived, tmp_path)
    (queue,) = (data_dir / "consumequeue" / "t" / "0").glob("*0000")
    with open(queue, "r+b") as file:
        file.seek(20)
        file.write((1).to_bytes(8, "big"))
    problems = decode(spark, data_dir, tmp_path / "decoded").problems
    assert problems == ["an entry without its record: t queue 0 offset 1, log offset 1"]


def test_a_queue_that_misses_an_entry_is_a_problem(
    spark: SparkSession, tmp_path: Path, lived: tuple[Path, Path]
) -> None:
    data_dir = damaged(lived, tmp_path)
    (queue,) = (data_dir / "consumequeue" / "t" / "0").glob("*0000")
    with open(queue, "r+b") as file:
        file.seek(20)
        file.write(bytes(20))
    (problem,) = decode(spark, data_dir, tmp_path / "decoded").problems
    assert problem.startswith("a record without entry: t queue 0 offset 1, log offset ")


def test_a_damaged_record_before_others_is_a_problem(
    spark: SparkSession, tmp_path: Path, lived: tuple[Path, Path]
) -> None:
    data_dir = damaged(lived, tmp_path)
    with open(data_dir / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(3_000)
        file.write(b"\xff" * 8)
    problems = decode(spark, data_dir, tmp_path / "decoded").problems
    assert "but later files hold some" in problems[0]


def test_what_cannot_be_decoded(
    spark: SparkSession, tmp_path: Path, lived: tuple[Path, Path]
) -> None:
    with pytest.raises(CannotDecode, match="no data directory"):
        decode(spark, tmp_path, tmp_path / "out")
    with pytest.raises(CannotDecode, match="inside the data directory"):
        decode(spark, lived[0], lived[0] / "out")
    (tmp_path / "data" / "commitlog").mkdir(parents=True)
    with pytest.raises(CannotDecode, match="consumequeue"):
        decode(spark, tmp_path / "data", tmp_path / "out")
