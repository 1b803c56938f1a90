"""A lake holds what audits know, one commit per table and run; a run is published once."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from harness.audit_folder import FIRST_MS, HOUR_MS, AuditFolder, row

from popmq_pipelines.lake import audits, delta_table, lake_rows
from popmq_pipelines.lake.publish import Published, publish
from popmq_pipelines.snapshot.columns import AUDIT_TABLES

NOW_MS = FIRST_MS + 100 * HOUR_MS
STATE = "recon_message_state"


def state(offset: int, **values: Any) -> dict[str, Any]:
    told = {"topic": "orders", "consumer_group": "billing", "state": "acked"}
    return row(STATE, queue_offset=offset, **{**told, **values})


def bring(lake: Path, *outs: Path, keep_days: int = 30) -> list[Published]:
    return [publish(one, lake, keep_days=keep_days, now_ms=NOW_MS) for one in audits.find(outs)]


def rows(lake: Path, table: str, version: int | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        DeltaTable(str(lake / table), version=version).to_pyarrow_table().to_pylist()
    )
    return found


def offsets(lake: Path, version: int | None = None) -> list[tuple[str, int, str]]:
    found = rows(lake, STATE, version)
    return sorted((one["broker"], one["queue_offset"], one["state"]) for one in found)


def versions(lake: Path) -> Mapping[str, int]:
    return {path.name: DeltaTable(str(path)).version() for path in lake.iterdir()}


@pytest.fixture
def audit(tmp_path: Path) -> AuditFolder:
    return AuditFolder(tmp_path / "audit")


def test_times_are_timestamps_and_rows_say_whose_they_are(
    audit: AuditFolder, tmp_path: Path
) -> None:
    held = state(7, state="in_flight", until_ms=FIRST_MS + 1, pop_time_ms=FIRST_MS)
    endless = state(8, until_ms=(1 << 63) - 1)
    name = audit.run({STATE: [held, endless], "recon_gaps": [row("recon_gaps", kind="skipped")]})
    assert bring(tmp_path / "lake", audit.out) == [
        Published("broker-a", (STATE, "recon_gaps", "recon_run"), 3, 0)
    ]
    first, second = sorted(rows(tmp_path / "lake", STATE), key=lambda one: one["queue_offset"])
    assert first["until_at"] == datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    assert first["pop_time_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert second["until_at"] is None
    assert (first["broker"], first["snapshot_id"]) == ("broker-a", name)
    assert first["day"] == date(2026, 1, 1)
    assert set(versions(tmp_path / "lake")) == {*AUDIT_TABLES, "runs"}


def test_each_column_of_milliseconds_is_a_moment_or_a_length() -> None:
    columns = {one.name for table in AUDIT_TABLES.values() for one in table}
    told = {name for name in columns if name.endswith("_ms")}
    assert told == lake_rows.MOMENTS | lake_rows.LENGTHS
    assert not lake_rows.MOMENTS & lake_rows.LENGTHS


def test_the_same_run_again_changes_nothing(audit: AuditFolder, tmp_path: Path) -> None:
    audit.run({STATE: [state(1)]})
    bring(tmp_path / "lake", audit.out)
    before = versions(tmp_path / "lake")
    assert bring(tmp_path / "lake", audit.out) == [Published("broker-a", (), 0, 0)]
    assert versions(tmp_path / "lake") == before


def test_an_epoch_that_was_judged_again_is_replaced_in_one_commit(
    audit: AuditFolder, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    first = audit.run({STATE: [state(1, state="in_flight"), state(2)]})
    bring(lake, audit.out)
    before = versions(lake)[STATE]
    audit.run({STATE: [state(3)]})
    audit.put(STATE, first, [state(1, state="acked"), state(2)])
    bring(lake, audit.out)
    told = [("broker-a", 1, "acked"), ("broker-a", 2, "acked"), ("broker-a", 3, "acked")]
    assert offsets(lake) == told
    assert versions(lake)[STATE] == before + 1
    assert offsets(lake, before) == [("broker-a", 1, "in_flight"), ("broker-a", 2, "acked")]


def test_findings_that_are_gone_leave_the_lake(audit: AuditFolder, tmp_path: Path) -> None:
    first = audit.run({"recon_gaps": [row("recon_gaps", kind="lease overdue")]})
    bring(tmp_path / "lake", audit.out)
    audit.put("recon_gaps", first, [])
    assert bring(tmp_path / "lake", audit.out) == [Published("broker-a", ("recon_gaps",), 0, 1)]
    assert rows(tmp_path / "lake", "recon_gaps") == []


def test_what_a_run_knew_is_found_by_its_snapshot(audit: AuditFolder, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first = audit.run({STATE: [state(1)]})
    bring(lake, audit.out)
    second = audit.run({STATE: [state(2)]})
    bring(lake, audit.out)
    found = {
        one["snapshot_id"]: one["version"]
        for one in rows(lake, "runs")
        if one["table_name"] == STATE
    }
    assert offsets(lake, found[first]) == [("broker-a", 1, "acked")]
    assert len(offsets(lake, found[second])) == 2
    (commit,) = DeltaTable(str(lake / STATE)).history(1)
    assert commit["popmq.run"] == second


def test_what_the_audit_forgot_expires(audit: AuditFolder, tmp_path: Path) -> None:
    audit.run({STATE: [state(1)]})
    audit.run({STATE: [state(2)]})
    bring(tmp_path / "lake", audit.out)
    audit.forget_first()
    assert bring(tmp_path / "lake", audit.out) == [
        Published("broker-a", (STATE, "recon_run"), 0, 2)
    ]
    assert offsets(tmp_path / "lake") == [("broker-a", 2, "acked")]


def test_files_of_old_versions_go_after_their_days(audit: AuditFolder, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first = audit.run({STATE: [state(1)]})
    bring(lake, audit.out)
    kept = versions(lake)[STATE]
    audit.put(STATE, first, [state(2)])
    bring(lake, audit.out)
    assert offsets(lake, kept) == [("broker-a", 1, "acked")]
    bring(lake, audit.out, keep_days=0)
    assert offsets(lake) == [("broker-a", 2, "acked")]
    assert len(list((lake / STATE).rglob("*.parquet"))) == 1


def test_a_crash_between_tables_is_mended(
    audit: AuditFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    audit.run({STATE: [state(1)], "recon_gaps": [row("recon_gaps", kind="skipped")]})
    calls: list[str] = []
    true_replace = delta_table.replace

    def crash_at_the_second(*arguments: Any) -> None:
        calls.append("")
        if len(calls) == 2:
            raise KeyboardInterrupt
        true_replace(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(delta_table, "replace", crash_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            bring(lake, audit.out)
    done = versions(lake)[STATE]
    assert bring(lake, audit.out)[0].written == ("recon_gaps", "recon_run")
    assert versions(lake)[STATE] == done
    assert {one["table_name"] for one in rows(lake, "runs")} == set(AUDIT_TABLES)


def test_brokers_do_not_touch_each_other(tmp_path: Path) -> None:
    one = AuditFolder(tmp_path / "all/broker-a/report")
    other = AuditFolder(tmp_path / "all/broker-b/report", "broker-b")
    one.run({STATE: [state(1)]})
    other.run({STATE: [state(1, state="dead")]})
    bring(tmp_path / "lake", tmp_path / "all")
    assert offsets(tmp_path / "lake") == [("broker-a", 1, "acked"), ("broker-b", 1, "dead")]
    one.forget_first()
    bring(tmp_path / "lake", one.out, other.out)
    assert offsets(tmp_path / "lake") == [("broker-b", 1, "dead")]


def test_a_day_of_many_files_is_compacted(
    audit: AuditFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_table, "FILES_MAX", 3)
    for number in range(4):
        audit.run({STATE: [state(number)]})
        bring(tmp_path / "lake", audit.out)
    table = DeltaTable(str(tmp_path / "lake" / STATE))
    assert len(table.file_uris()) == 1
    assert len(offsets(tmp_path / "lake")) == 4
    assert bring(tmp_path / "lake", audit.out) == [Published("broker-a", (), 0, 0)]


def test_a_run_without_a_verdict_is_in_the_lake(audit: AuditFolder, tmp_path: Path) -> None:
    audit.run({STATE: [state(1)]})
    audit.put("recon_run", "broken", [row("recon_run", verdict="INCOMPLETE")])
    bring(tmp_path / "lake", audit.out)
    found = {one["snapshot_id"]: one for one in rows(tmp_path / "lake", "recon_run")}
    assert found["broken"]["verdict"] == "INCOMPLETE"
    assert found["broken"]["day"] is None


def test_rows_are_read_in_batches(
    audit: AuditFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_rows, "BATCH_ROWS", 10)
    audit.run({STATE: [state(number) for number in range(95)]})
    (found,) = audits.find([audit.out])
    read = list(lake_rows.batches(STATE, "broker-a", found.partitions(STATE)))
    assert [one.num_rows for one in read] == [10] * 9 + [5]


def test_a_column_that_an_older_audit_lacks_is_null(audit: AuditFolder, tmp_path: Path) -> None:
    name = audit.run({STATE: [state(1)]})
    file = audit.out / STATE / f"snapshot_id={name}" / "part-00000.parquet"
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["lease_count"]), file)
    bring(tmp_path / "lake", audit.out)
    (found,) = rows(tmp_path / "lake", STATE)
    assert (found["lease_count"], found["queue_offset"]) == (None, 1)
