"""What an audit leaves on disk besides its tables: the last report, and what compaction forgets."""

from pathlib import Path

import pytest
from unit.pipelines.report.test_report_pages import failed
from unit.pipelines.tables.test_ledger import epoch

from popmq_pipelines.__main__ import main
from popmq_pipelines.jobs.compact import compact
from popmq_pipelines.report.last_report import NoReport, load, save
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, results
from popmq_pipelines.tables.ledger import Ledger


def test_a_report_is_shown_again_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = failed()
    save(tmp_path, told, tmp_path / "s1")
    again, snapshot = load(tmp_path)
    assert (again.verdict, again.findings, snapshot) == (
        told.verdict,
        list(told.findings),
        tmp_path / "s1",
    )
    page = tmp_path / "page.html"
    assert main(["report", "--out", str(tmp_path), "--html", str(page)]) == 1
    assert capsys.readouterr().out.startswith("FAIL: snapshot s1")
    assert "FAIL" in page.read_text()


def test_no_report_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoReport, match="reconcile"):
        load(tmp_path)
    assert main(["report", "--out", str(tmp_path)]) == 2
    assert "No audit has finished there" in capsys.readouterr().err


def test_compaction_forgets_what_the_broker_has_deleted_all_of(tmp_path: Path) -> None:
    ledger = Ledger("b", (epoch(1), epoch(2), epoch(3)))
    folder = ledger_tables.folder(tmp_path)
    ledgers.save(folder, ledger)
    for one in ledger.epochs:
        rows = folder / f"{one.number:06}" / "pop_acks"
        rows.mkdir(parents=True)
        (rows / "part-00000.parquet").write_bytes(b"12345")
        results.partition(tmp_path, "recon_gaps", one.snapshot_id).mkdir(parents=True)
    assert compact(tmp_path, 150) == (1, 5)
    assert [one.number for one in ledgers.load(folder).epochs] == [2, 3]
    left = {path.name for path in (tmp_path / "recon_gaps").iterdir()}
    assert left == {"snapshot_id=s2", "snapshot_id=s3"}
    assert sorted(path.name for path in folder.iterdir()) == ["000002", "000003", "ledger.json"]
