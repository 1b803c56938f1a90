"""Do the logs of a broker's replicas agree, and where do they part if not?"""

import json
import shutil
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.damaging import damage_log
from harness.histories import History
from pyspark.sql import SparkSession

from popmq_broker.store.offline.closed_directory import dump_log
from popmq_common.records import record as rec
from popmq_common.units import LogOffset, QueueOffset
from popmq_pipelines import __main__ as command
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.jobs.compare_replicas import Comparison, compare_replicas, text
from popmq_pipelines.tables import session

pytestmark = pytest.mark.pipelines
STEPS = 60


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    driver = EngineDriver(tmp_path_factory.mktemp("lived"))
    History(driver, 7).go_on(STEPS)
    driver.send("the last one")
    driver.run(driver.broker.close())
    driver.loop.close()
    return driver.data_dir


@pytest.fixture
def replicas(lived: Path, tmp_path: Path) -> dict[str, Path]:
    return {name: Path(shutil.copytree(lived, tmp_path / name)) for name in ("a1", "a2", "a3")}


def records(data_dir: Path) -> list[rec.Record]:
    shown = (one.record for one in dump_log(data_dir, 0, "", -1))
    return [one for one in shown if one is not None]


def write(data_dir: Path, at: int, data: bytes) -> None:
    bases = sorted(int(path.name) for path in (data_dir / "commitlog").iterdir())
    base = max(one for one in bases if one <= at)
    with open(data_dir / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(at - base)
        file.write(data)


def differences(found: Comparison) -> list[tuple[int, set[str]]]:
    """(log offset, replicas that have a record there)"""
    return [(one.log_offset, set(one.hashes)) for one in found.differences]


def test_equal_logs_pass(spark: SparkSession, replicas: dict[str, Path]) -> None:
    found = compare_replicas(spark, replicas)
    all_records = records(replicas["a1"])
    end = all_records[-1].log_offset
    assert found.verdict is AuditVerdict.PASS
    assert (found.compared_from, found.compared_to) == (0, found.logs[0].log_end)
    assert found.compared_to > end
    assert found.record_count == len(all_records)


def test_a_record_written_again_with_its_checksum_is_found(
    spark: SparkSession, replicas: dict[str, Path]
) -> None:
    victim = records(replicas["a2"])[9]
    body = bytes(len(victim.body) - 1) + b"!"
    write(replicas["a2"], victim.log_offset, rec.encode(victim._replace(body=body)))
    found = compare_replicas(spark, replicas)
    assert found.verdict is AuditVerdict.FAIL
    assert differences(found) == [(victim.log_offset, {"a1", "a2", "a3"})]
    hashes = found.differences[0].hashes
    assert hashes["a1"] == hashes["a3"] != hashes["a2"]
    place = f"{victim.topic} queue {victim.queue_id} offset {victim.queue_offset}"
    assert f"differs at log offset {victim.log_offset}: {place}" in text(found)


def test_damage_in_the_newest_file_is_no_replica_that_lags(
    spark: SparkSession, replicas: dict[str, Path]
) -> None:
    victim = records(replicas["a3"])[-1]
    damage_log(replicas["a3"], victim.log_offset + 100)
    found = compare_replicas(spark, replicas)
    assert found.verdict is AuditVerdict.FAIL
    assert differences(found) == [(victim.log_offset, {"a1", "a2"})]
    assert "a3: no such record" in text(found)


def test_a_replica_that_lags_is_compared_up_to_its_end(
    spark: SparkSession, replicas: dict[str, Path]
) -> None:
    last = records(replicas["a2"])[-1]
    write(replicas["a2"], last.log_offset, bytes(len(rec.encode(last))))
    shutil.rmtree(replicas["a2"] / "consumequeue")
    (replicas["a2"] / "consumequeue").mkdir()
    found = compare_replicas(spark, replicas)
    assert found.verdict is AuditVerdict.PASS
    assert found.compared_to == last.log_offset == found.logs[1].log_end
    assert "bytes behind what is committed" in text(found)


def test_a_tail_that_was_never_committed_is_no_difference(
    spark: SparkSession, replicas: dict[str, Path]
) -> None:
    """What a primary that was replaced had written last; each of the two wrote something else."""
    last = records(replicas["a1"])[-1]
    end = last.log_offset + len(rec.encode(last))
    for name, body in (("a1", b"mine"), ("a2", b"yours")):
        tail = last._replace(
            body=body,
            queue_offset=QueueOffset(last.queue_offset + 1),
            log_offset=LogOffset(end),
        )
        write(replicas[name], end, rec.encode(tail))
    found = compare_replicas(spark, replicas)
    assert [log.log_end > end for log in found.logs] == [True, True, False]
    assert (found.verdict, found.compared_to) == (AuditVerdict.PASS, end)


def test_an_empty_replica_is_no_verdict(spark: SparkSession, replicas: dict[str, Path]) -> None:
    for folder in ("commitlog", "consumequeue"):
        shutil.rmtree(replicas["a3"] / folder)
        (replicas["a3"] / folder).mkdir()
    found = compare_replicas(spark, replicas)
    assert found.verdict is AuditVerdict.INCOMPLETE
    assert "a3: log from 0 to 0" in text(found)
    assert "it has no record" in text(found)


def test_the_command(
    spark: SparkSession,
    replicas: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Lent:
        """The tests' Spark, which the command may not stop."""

        def __getattr__(self, name: str) -> object:
            return (lambda: None) if name == "stop" else getattr(spark, name)

    monkeypatch.setattr(session, "start", lambda *_: Lent())
    places = [str(path) for path in replicas.values()]
    assert command.main(["replicas", *places, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "PASS"
    assert [log["replica"] for log in told["logs"]] == places
    assert command.main(["replicas", places[0]]) == 2
    assert "two data directories" in capsys.readouterr().err
    assert command.main(["replicas", places[0], f"{places[0]}/nothing"]) == 2
    assert "is no data directory" in capsys.readouterr().err
